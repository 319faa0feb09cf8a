// Asking for memory before it is needed, where the compiler knows how.
#pragma once

namespace wolfmeans {

inline void prefetch([[maybe_unused]] const void* address) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address);
#endif
}

} // namespace wolfmeans
