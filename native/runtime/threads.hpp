// Rows in contiguous chunks over threads. No pool and no global state: threads live for one call
// or, in a run of many steps, as long as the caller's Team, so that a process may fork between two
// calls.
#pragma once

#include <cstddef>

#include "runtime/interrupts.hpp"

namespace wolfmeans {

// Below this many coordinate operations starting a thread costs more than it saves.
inline constexpr double operations_per_thread = 1e6;
// With a team, whose threads wait already, it costs far less.
inline constexpr double operations_per_member = 5e4;

// Threads that wait for work. They spin for a moment before they sleep, because the steps of a run
// follow each other closely.
class Team {
public:
    // Starts n_threads - 1 threads, or fewer if no more can be started, and becomes the team of the
    // calling thread until destroyed.
    explicit Team(int n_threads);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team();

    class Members; // threads.cpp

private:
    Members* members_;
};

// How many threads `operations` of work over `n` rows are worth, at most n_threads, at least 1.
std::size_t worthwhile_threads(std::size_t n, double operations, int n_threads);

// Work on some rows, with its type erased: a function and its argument.
struct WorkOnRows {
    void (*function)(const void* work, std::size_t chunk, std::size_t begin, std::size_t end);
    const void* work;
};

void over_rows(std::size_t n, std::size_t chunks, std::size_t multiple, WorkOnRows work);

// Run work(chunk, begin, end) for `chunks` contiguous chunks that together are the rows 0..n-1,
// each once. Chunk boundaries are multiples of `multiple` (save the last). Returns when all are
// done. What `work` computes for a row must not depend on the chunk. Interrupts are checked before
// the start; a long `work` must call check_interrupt() itself.
template <class Work>
void over_rows(std::size_t n, std::size_t chunks, std::size_t multiple, const Work& work) {
    const auto function = [](const void* of, std::size_t chunk, std::size_t begin,
                             std::size_t end) {
        (*static_cast<const Work*>(of))(chunk, begin, end);
    };
    over_rows(n, chunks, multiple, WorkOnRows{function, &work});
}

// Run work(thread, begin, end) for blocks of at most `block` of the rows 0..n-1. Threads take
// blocks as they become free, for work that takes longer in some blocks than in others.
template <class Work>
void over_blocks(std::size_t n, std::size_t threads, std::size_t block, const Work& work) {
    std::size_t next = 0;
    over_rows(threads, threads, 1, [&](std::size_t thread, std::size_t, std::size_t) {
        for (;;) {
            const std::size_t begin = __atomic_fetch_add(&next, block, __ATOMIC_RELAXED);
            if (begin >= n) break;
            work(thread, begin, begin + block < n ? begin + block : n);
        }
    });
}

} // namespace wolfmeans
