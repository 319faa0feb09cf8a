// Rows in contiguous chunks over threads that live for one call. No pool and no global state: a
// process may fork between two calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace wolfmeans {

// Below this many coordinate operations starting a thread costs more than it saves.
inline constexpr double operations_per_thread = 1e6;

// How many threads `operations` of work over `n` rows are worth, at most n_threads, at least 1.
inline std::size_t worthwhile_threads(std::size_t n, double operations, int n_threads) {
    const double worth = std::min(operations / operations_per_thread, double(n_threads));
    return std::max<std::size_t>(1, std::min(n, static_cast<std::size_t>(worth)));
}

// Run work(chunk, begin, end) for `chunks` contiguous chunks that together are the rows 0..n-1,
// each once. Chunk boundaries are multiples of `multiple` (save the last). Returns when all are
// done. `work` must not throw; what it computes for a row must not depend on the chunk.
template <class Work>
void over_rows(std::size_t n, std::size_t chunks, std::size_t multiple, const Work& work) {
    const std::size_t units = (n + multiple - 1) / multiple;
    const auto boundary = [&](std::size_t chunk) {
        const std::size_t extra = std::min(chunk, units % chunks);
        return std::min(n, (units / chunks * chunk + extra) * multiple);
    };
    const auto run = [&](std::size_t chunk) { work(chunk, boundary(chunk), boundary(chunk + 1)); };

    std::vector<std::thread> threads;
    threads.reserve(chunks - 1);
    std::size_t started = 1;
    try {
        for (; started < chunks; ++started)
            threads.emplace_back(run, started);
    } catch (const std::exception&) {
        // No more threads to be had: the calling thread does the chunks that are left.
    }
    run(0);
    for (std::size_t chunk = started; chunk < chunks; ++chunk)
        run(chunk);
    for (std::thread& thread : threads)
        thread.join();
}

} // namespace wolfmeans
