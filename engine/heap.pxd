"""A 4-ary implicit min-heap of 16-byte nodes, in C, without the GIL.

Four children are one cache line.  Ties of `when` go by `tie`, whose upper 40
bits count submissions: equal due times keep the order in which they came.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from "heap.h" nogil:
    ctypedef struct Node "pysched_node":
        int64_t when
        uint64_t tie
    bint node_before "pysched_node_before"(const Node *a, const Node *b) noexcept
    void prefetch "pysched_prefetch"(const void *address) noexcept

    const int SLOT_BITS "PYSCHED_SLOT_BITS"
    const uint32_t SLOT_LIMIT "PYSCHED_SLOT_LIMIT"
    const uint64_t SLOT_MASK "PYSCHED_SLOT_MASK"
    const uint64_t ORDER_LIMIT "PYSCHED_ORDER_LIMIT"


cdef struct Heap:
    Node *nodes                          # so aligned that nodes[1], nodes[5], ... begin a cache line
    void *memory                         # as it was allocated
    size_t bytes                         # of memory
    size_t size
    size_t capacity


cdef void heap_free(Heap *heap) noexcept nogil
cdef int heap_reserve(Heap *heap, size_t capacity) noexcept nogil
cdef void heap_pop(Heap *heap) noexcept nogil
cdef void heap_replace_root(Heap *heap, int64_t when, uint64_t tie) noexcept nogil
cdef void heap_restore(Heap *heap) noexcept nogil
cdef void heap_sort(Heap *heap) noexcept nogil
cdef bint heap_ordered(const Heap *heap) noexcept nogil


cdef inline void sift_up(Node *nodes, size_t hole, Node node) noexcept nogil:
    cdef size_t parent
    while hole:
        parent = (hole - 1) >> 2
        if not node_before(&node, &nodes[parent]):
            break
        nodes[hole] = nodes[parent]
        hole = parent
    nodes[hole] = node


cdef inline void heap_push(Heap *heap, int64_t when, uint64_t tie) noexcept nogil:
    cdef Node node
    node.when = when
    node.tie = tie
    heap.size += 1
    sift_up(heap.nodes, heap.size - 1, node)
