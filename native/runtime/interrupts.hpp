// Interrupts of a long call (Ctrl-C): its loops call check_interrupt() from time to time. The
// thread that made the call then polls for an interrupt, every 50 ms at most; its helper threads
// see the result. Nothing here knows Python: the binding passes the function to poll (Released in
// binding.hpp).
//
// This header and threads.hpp are included almost everywhere, so they include next to nothing.
#pragma once

namespace wolfmeans {

// Ends the work of a helper thread of an interrupted call.
struct Interrupted {};

// A call that can be interrupted, for as long as this object lives.
class Interrupts {
public:
    // poll: throws an exception, which ends the call, if there is an interrupt.
    explicit Interrupts(void (*poll)());
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    ~Interrupts();

    // The call that a thread works for, and whether the thread made it or helps.
    struct Role {
        Interrupts* call = nullptr;
        bool is_caller = false;
    };
    static Role& of_this_thread();

    // Throws if the call is interrupted; polls if the thread is the caller and it is time to.
    void check(bool is_caller);
    bool interrupted() const;

private:
    void (*poll_)();
    Role outer_;
    long long next_; // nanoseconds of a clock that never goes back
    bool interrupted_ = false;
};

// Throws if the call that this thread works for is interrupted.
void check_interrupt();

// For loops with short iterations: calls check_interrupt() once in about a million operations.
class WorkCounter {
public:
    void add(double operations) {
        done_ += operations;
        if (done_ < 1e6) return;
        done_ = 0.0;
        check_interrupt();
    }

private:
    double done_ = 0.0;
};

} // namespace wolfmeans
