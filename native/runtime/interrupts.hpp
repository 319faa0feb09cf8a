// How a long call hears Ctrl-C: work says `heed()` from time to time. The thread that holds the
// call asks then whether it shall end, every 50 ms at most; the threads that help it see the
// answer. Nothing here knows Python: the binding says how to ask (Released in binding.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>

namespace wolfmeans {

// What ends the work of a thread that helps with an interrupted call.
struct Interrupted {};

// A call of the thread that makes this, for as long as it lives.
class Interrupts {
public:
    // ask: throws what the call shall end with, where it shall end.
    explicit Interrupts(void (*ask)()) : ask_(ask), outer_(here()) { here() = {this, true}; }
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    ~Interrupts() { here() = outer_; }

    static void heed() {
        const Place place = here();
        if (place.call != nullptr) place.call->look(place.holds);
    }

private:
    friend class Helpers;
    using Clock = std::chrono::steady_clock;

    // Which call a thread works for, and whether it is the one that holds it.
    struct Place {
        Interrupts* call = nullptr;
        bool holds = false;
    };
    static Place& here() {
        thread_local Place place;
        return place;
    }

    void look(bool holds) {
        if (over_.load(std::memory_order_relaxed)) throw Interrupted{};
        if (!holds) return;
        const Clock::time_point before = Clock::now();
        if (before < next_) return;
        try {
            ask_();
        } catch (...) {
            over_ = true;
            throw;
        }
        // Where other threads keep the interpreter busy the answer takes long: ask less often.
        const Clock::time_point after = Clock::now();
        next_ = after + std::clamp<Clock::duration>(20 * (after - before), often, seldom);
    }

    static constexpr std::chrono::milliseconds often{50}, seldom{500};

    void (*ask_)();
    Place outer_;
    Clock::time_point next_ = Clock::now() + often;
    std::atomic<bool> over_{false};
};

inline void heed() {
    Interrupts::heed();
}

// heed() for loops whose rounds may be short: once in about a million operations.
class Pace {
public:
    void operator()(double operations) {
        spent_ += operations;
        if (spent_ < 1e6) return;
        spent_ = 0.0;
        heed();
    }

private:
    double spent_ = 0.0;
};

// Threads that help with the call of the thread that makes this: what one of them throws is thrown
// again, where they are waited for.
class Helpers {
public:
    Helpers() : call_(Interrupts::here().call) {}

    template <class Work>
    void run(const Work& work) {
        Interrupts::Place& here = Interrupts::here();
        const Interrupts::Place before = here;
        if (here.call != call_) here = {call_, false};
        try {
            work();
        } catch (const Interrupted&) {
            // The thread that holds the call knows why.
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
        }
        here = before;
    }

    // When all have ended.
    void rethrow() {
        if (failure_) std::rethrow_exception(failure_);
        if (call_ != nullptr && call_->over_) throw Interrupted{};
    }

private:
    Interrupts* call_;
    std::mutex mutex_;
    std::exception_ptr failure_;
};

} // namespace wolfmeans
