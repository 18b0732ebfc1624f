"""See lateness.pxd."""

from pysched.stats import Lateness


cdef int64_t quantile(const Histogram *histogram, uint64_t per_mille) noexcept:
    """The upper edge of the bucket that holds the value of that rank, never above the greatest value."""
    # ceil(count * per_mille / 1000), in parts that cannot overflow
    cdef uint64_t rank = histogram.count // 1000 * per_mille + (histogram.count % 1000 * per_mille + 999) // 1000
    cdef uint64_t seen = 0
    cdef int64_t edge
    cdef int bucket, shift
    for bucket in range(BUCKETS):
        seen += histogram.buckets[bucket]
        if seen >= rank and seen:
            shift = (bucket >> SUB_BITS) - 1 if bucket >= 2 << SUB_BITS else 0
            edge = ((<int64_t>(bucket - (shift << SUB_BITS)) + 1) << shift) - 1
            return edge if edge < histogram.greatest else histogram.greatest
    return 0


cdef object histogram_summary(const Histogram *histogram):
    """A `pysched.Lateness`, in seconds."""
    return Lateness(
        count=histogram.count,
        p50=quantile(histogram, 500) / 1e9,
        p99=quantile(histogram, 990) / 1e9,
        p999=quantile(histogram, 999) / 1e9,
        max=histogram.greatest / 1e9,
    )
