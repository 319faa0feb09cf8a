#include "runtime/interrupts.hpp"

#include <algorithm>
#include <chrono>

namespace wolfmeans {
namespace {

constexpr long long often = 50'000'000, seldom = 500'000'000; // nanoseconds

long long now() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

} // namespace

Interrupts::Interrupts(void (*ask)()) : ask_(ask), outer_(here()), next_(now() + often) {
    here() = {this, true};
}

Interrupts::~Interrupts() {
    here() = outer_;
}

Interrupts::Place& Interrupts::here() {
    thread_local Place place;
    return place;
}

bool Interrupts::over() const {
    return __atomic_load_n(&over_, __ATOMIC_RELAXED);
}

void Interrupts::look(bool holds) {
    if (over()) throw Interrupted{};
    if (!holds) return;
    const long long before = now();
    if (before < next_) return;
    try {
        ask_();
    } catch (...) {
        __atomic_store_n(&over_, true, __ATOMIC_SEQ_CST);
        throw;
    }
    // Where other threads keep the interpreter busy the answer takes long: ask less often.
    const long long after = now();
    next_ = after + std::clamp(20 * (after - before), often, seldom);
}

void heed() {
    const Interrupts::Place place = Interrupts::here();
    if (place.call != nullptr) place.call->look(place.holds);
}

} // namespace wolfmeans
