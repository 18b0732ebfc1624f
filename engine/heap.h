/* The order of the timer heap: by due time, then by tie word.
 *
 * Written so that compilers turn it into a compare-and-borrow without a
 * branch: which of two children is smaller is a coin toss that a branch
 * predictor loses. */
#ifndef PYSCHED_HEAP_H
#define PYSCHED_HEAP_H

#include <stdint.h>

/* A tie word is the order of submission, 1 to ORDER_LIMIT - 1, above the slot, 1 to SLOT_LIMIT - 1. */
#define PYSCHED_SLOT_BITS 24
#define PYSCHED_SLOT_LIMIT ((uint32_t)1 << PYSCHED_SLOT_BITS)
#define PYSCHED_SLOT_MASK (((uint64_t)1 << PYSCHED_SLOT_BITS) - 1)
#define PYSCHED_ORDER_LIMIT ((uint64_t)1 << (64 - PYSCHED_SLOT_BITS))

typedef struct {
    int64_t when;   /* due, ns */
    uint64_t tie;   /* order of submission << 24 | slot */
} pysched_node;

static inline int pysched_node_before(const pysched_node *a, const pysched_node *b) {
#if defined(__SIZEOF_INT128__)
    __int128 left = (__int128)(((unsigned __int128)(uint64_t)a->when << 64) | a->tie);
    __int128 right = (__int128)(((unsigned __int128)(uint64_t)b->when << 64) | b->tie);
    return left < right;
#else
    return a->when < b->when || (a->when == b->when && a->tie < b->tie);
#endif
}

#if defined(__GNUC__)
#  define pysched_prefetch(address) __builtin_prefetch(address)
#else
#  define pysched_prefetch(address) ((void)(address))
#endif

#endif
