// How a long call hears Ctrl-C: work says `heed()` from time to time. The thread that holds the
// call asks then whether it shall end, every 50 ms at most; the threads that help it see the
// answer. Nothing here knows Python: the binding says how to ask (Released in binding.hpp).
//
// This header and threads.hpp are included almost everywhere, so they include next to nothing.
#pragma once

namespace wolfmeans {

// What ends the work of a thread that helps with an interrupted call.
struct Interrupted {};

// A call of the thread that makes this, for as long as it lives.
class Interrupts {
public:
    // ask: throws what the call shall end with, where it shall end.
    explicit Interrupts(void (*ask)());
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    ~Interrupts();

    // Which call a thread works for, and whether it is the one that holds it.
    struct Place {
        Interrupts* call = nullptr;
        bool holds = false;
    };
    static Place& here();

    // Ask, where the thread holds the call and it is time; throws where the call is over.
    void look(bool holds);
    bool over() const;

private:
    void (*ask_)();
    Place outer_;
    long long next_; // nanoseconds of a clock that never goes back
    bool over_ = false;
};

// Throws where the call that this thread works for shall end.
void heed();

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

} // namespace wolfmeans
