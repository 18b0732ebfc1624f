// The yardstick of the heap: std::priority_queue of nodes of the same size, in the same order.
#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

struct Node {
    std::int64_t when;
    std::uint64_t order;
};

struct Later {
    bool operator()(const Node &a, const Node &b) const {
        return a.when > b.when || (a.when == b.when && a.order > b.order);
    }
};

using Queue = std::priority_queue<Node, std::vector<Node>, Later>;

extern "C" {

Queue *queue_new() { return new Queue; }

void queue_free(Queue *queue) { delete queue; }

void queue_push_all(Queue *queue, const std::int64_t *whens, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        queue->push(Node{whens[i], i});
}

// Pops everything and returns how many came in order.
std::size_t queue_pop_all(Queue *queue) {
    std::size_t ordered = 0;
    Node last{INT64_MIN, 0};
    while (!queue->empty()) {
        Node node = queue->top();
        queue->pop();
        ordered += !Later{}(last, node);
        last = node;
    }
    return ordered;
}
}
