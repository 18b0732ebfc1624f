"""One adapter for each contender; the same operations under the same names, see `bench.measure`."""
