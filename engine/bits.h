/* The lowest and the highest bit of a word that is not 0. */
#ifndef PYSCHED_BITS_H
#define PYSCHED_BITS_H

#include <stdint.h>

#if defined(_MSC_VER)
#  include <intrin.h>
static inline int pysched_lowest_bit(uint64_t word) {
    unsigned long index;
    if (_BitScanForward(&index, (unsigned long)word)) return (int)index;
    _BitScanForward(&index, (unsigned long)(word >> 32));
    return (int)index + 32;
}
static inline int pysched_highest_bit(uint64_t word) {
    unsigned long index;
    if (_BitScanReverse(&index, (unsigned long)(word >> 32))) return (int)index + 32;
    _BitScanReverse(&index, (unsigned long)word);
    return (int)index;
}
#else
static inline int pysched_lowest_bit(uint64_t word) { return __builtin_ctzll(word); }
static inline int pysched_highest_bit(uint64_t word) { return 63 - __builtin_clzll(word); }
#endif

#endif
