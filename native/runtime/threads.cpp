#include "runtime/threads.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace wolfmeans {
namespace {

// The helper threads of a call: rethrow() passes on the first exception that one of them has
// thrown.
class Helpers {
public:
    Helpers() : call_(Interrupts::of_this_thread().call) {}

    template <class Work>
    void run(const Work& work) {
        Interrupts::Role& role = Interrupts::of_this_thread();
        const Interrupts::Role before = role;
        if (role.call != call_) role = {call_, false};
        try {
            work();
        } catch (const Interrupted&) {
            // The calling thread reports it.
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
        }
        role = before;
    }

    // Call this after all of them have ended.
    void rethrow() {
        if (failure_) std::rethrow_exception(failure_);
        if (call_ != nullptr && call_->interrupted()) throw Interrupted{};
    }

private:
    Interrupts* call_;
    std::mutex mutex_;
    std::exception_ptr failure_;
};

} // namespace

class Team::Members {
public:
    explicit Members(int n_threads) : outer_(current()) {
        try {
            for (int member = 1; member < n_threads; ++member)
                threads_.emplace_back([this] { serve(); });
        } catch (const std::exception&) {
            // With fewer threads the calling thread does more.
        }
        current() = this;
    }
    Members(const Members&) = delete;
    Members& operator=(const Members&) = delete;
    ~Members() {
        current() = outer_;
        over_ = true;
        // A new ticket without parts wakes the threads.
        ticket_.fetch_add(one_round);
        ticket_.notify_all();
        for (std::thread& thread : threads_)
            thread.join();
    }

    // The team of this thread, null where there is none.
    static Members*& current() {
        thread_local Members* team = nullptr;
        return team;
    }

    // Run part(0), ..., part(parts - 1), each once, in any thread. A thread that has not taken a
    // part is not waited for: on a busy processor the calling thread may do all of them.
    void run(std::size_t parts, const std::function<void(std::size_t)>& part) {
        part_ = &part;
        done_ = 0;
        const std::uint64_t round = ticket_.load() / one_round + 1;
        ticket_.store(round * one_round + parts);
        ticket_.notify_all();
        work();
        for (int spin = 0;; ++spin) {
            const std::size_t done = done_;
            if (done == parts) break;
            if (spin < spins)
                relax();
            else
                done_.wait(done);
        }
    }

private:
    // Some tens of microseconds: longer than the calling thread is busy between two regions.
    static constexpr int spins = 3000;
    // A ticket is the number of the round, and in its lower half how many parts are left to take.
    static constexpr std::uint64_t one_round = std::uint64_t{1} << 32;

    static void relax() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }

    // Take parts until none is left. The round stays open while a part is being worked on, so part_
    // stays valid.
    void work() {
        for (std::uint64_t ticket = ticket_; ticket % one_round != 0;) {
            if (!ticket_.compare_exchange_weak(ticket, ticket - 1)) continue;
            (*part_)(static_cast<std::size_t>(ticket % one_round - 1));
            done_.fetch_add(1);
            done_.notify_one();
            ticket = ticket_;
        }
    }

    void serve() {
        while (!over_) {
            const std::uint64_t seen = ticket_;
            if (seen % one_round != 0) {
                work();
                continue;
            }
            int spin = 0;
            while (ticket_ == seen && spin < spins) {
                relax();
                ++spin;
            }
            if (spin == spins && !over_) ticket_.wait(seen);
        }
    }

    Members* outer_;
    std::vector<std::thread> threads_;
    const std::function<void(std::size_t)>* part_ = nullptr;
    std::atomic<std::uint64_t> ticket_{0};
    std::atomic<std::size_t> done_{0};
    std::atomic<bool> over_{false};
};

Team::Team(int n_threads) : members_(new Members(n_threads)) {}

Team::~Team() {
    delete members_;
}

std::size_t worthwhile_threads(std::size_t n, double operations, int n_threads) {
    const double cost = Team::Members::current() ? operations_per_member : operations_per_thread;
    const double worth = std::min(operations / cost, double(n_threads));
    return std::max<std::size_t>(1, std::min(n, static_cast<std::size_t>(worth)));
}

void over_rows(std::size_t n, std::size_t chunks, std::size_t multiple, WorkOnRows work) {
    check_interrupt();
    const std::size_t units = (n + multiple - 1) / multiple;
    const auto boundary = [&](std::size_t chunk) {
        const std::size_t extra = std::min(chunk, units % chunks);
        return std::min(n, (units / chunks * chunk + extra) * multiple);
    };
    if (chunks == 1) return work.function(work.work, 0, boundary(0), boundary(1));
    Helpers helpers;
    const auto run = [&](std::size_t chunk) {
        helpers.run([&] { work.function(work.work, chunk, boundary(chunk), boundary(chunk + 1)); });
    };
    if (Team::Members* team = Team::Members::current()) {
        team->run(chunks, run);
        return helpers.rethrow();
    }

    std::vector<std::thread> threads;
    threads.reserve(chunks - 1);
    std::size_t started = 1;
    try {
        for (; started < chunks; ++started)
            threads.emplace_back(run, started);
    } catch (const std::exception&) {
        // No more threads can be started: the calling thread does the remaining chunks.
    }
    run(0);
    for (std::size_t chunk = started; chunk < chunks; ++chunk)
        run(chunk);
    for (std::thread& thread : threads)
        thread.join();
    helpers.rethrow();
}

} // namespace wolfmeans
