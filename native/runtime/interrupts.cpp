#include "runtime/interrupts.hpp"

#include <algorithm>
#include <chrono>

namespace wolfmeans {
namespace {

constexpr long long shortest = 50'000'000, longest = 500'000'000; // nanoseconds between polls

long long now() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

} // namespace

Interrupts::Interrupts(void (*poll)())
    : poll_(poll), outer_(of_this_thread()), next_(now() + shortest) {
    of_this_thread() = {this, true};
}

Interrupts::~Interrupts() {
    of_this_thread() = outer_;
}

Interrupts::Role& Interrupts::of_this_thread() {
    thread_local Role role;
    return role;
}

bool Interrupts::interrupted() const {
    return __atomic_load_n(&interrupted_, __ATOMIC_RELAXED);
}

void Interrupts::check(bool is_caller) {
    if (interrupted()) throw Interrupted{};
    if (!is_caller) return;
    const long long before = now();
    if (before < next_) return;
    try {
        poll_();
    } catch (...) {
        __atomic_store_n(&interrupted_, true, __ATOMIC_SEQ_CST);
        throw;
    }
    // Where other threads keep the interpreter busy the answer takes long: ask less shortest.
    const long long after = now();
    next_ = after + std::clamp(20 * (after - before), shortest, longest);
}

void check_interrupt() {
    const Interrupts::Role role = Interrupts::of_this_thread();
    if (role.call != nullptr) role.call->check(role.is_caller);
}

} // namespace wolfmeans
