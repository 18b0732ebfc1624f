"""How late callbacks start, as a histogram of logarithmic buckets: a few nanoseconds a callback."""

from libc.stdint cimport int64_t, uint64_t

from .platform cimport bit_length


cdef enum:
    SUB_BITS = 4                                     # 16 buckets an octave: an error of 1/16 at most
    BUCKETS = (64 - SUB_BITS) << SUB_BITS

cdef struct Histogram:
    uint64_t count
    int64_t greatest
    uint64_t buckets[BUCKETS]


cdef inline uint64_t *bucket_of(Histogram *histogram, int64_t value_ns) noexcept nogil:
    """Below 16 ns each value has a bucket of its own, above it the leading 5 bits choose."""
    cdef int shift = bit_length(<uint64_t>value_ns) - (SUB_BITS + 1)
    if shift < 0:
        shift = 0
    return &histogram.buckets[(shift << SUB_BITS) + (value_ns >> shift)]


cdef inline void histogram_add(Histogram *histogram, int64_t value_ns) noexcept nogil:
    """Counts a value; what is below 0 counts as 0."""
    if value_ns < 0:
        value_ns = 0
    bucket_of(histogram, value_ns)[0] += 1
    histogram.count += 1
    if value_ns > histogram.greatest:
        histogram.greatest = value_ns


cdef inline void histogram_remove(Histogram *histogram, int64_t value_ns) noexcept nogil:
    """Takes a value back; the greatest ever seen stays."""
    bucket_of(histogram, max(value_ns, 0))[0] -= 1
    histogram.count -= 1


cdef object histogram_summary(const Histogram *histogram)
