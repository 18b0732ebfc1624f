"""One adapter for each contender; all offer the same operations under the same names (see `bench.measure.Operation`)."""
