// Asking for memory before it is needed, where the compiler knows how.
#pragma once

namespace wolfmeans {

inline void prefetch([[maybe_unused]] const void* address) {
    __builtin_prefetch(address);
}

} // namespace wolfmeans
