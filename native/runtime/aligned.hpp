// Memory at a 64-byte boundary: a register's worth of numbers never straddles two cache lines.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace wolfmeans {

template <class Number>
class Aligned {
public:
    explicit Aligned(std::size_t size = 0) { resize(size); }
    Aligned(Aligned&&) = default;
    Aligned& operator=(Aligned&&) = default;

    // New numbers are 0; old ones are lost if the size changes.
    void resize(std::size_t size) {
        if (data_ && size + 64 / sizeof(Number) == storage_.size()) return;
        storage_.assign(size + 64 / sizeof(Number), Number{0});
        void* start = storage_.data();
        std::size_t space = storage_.size() * sizeof(Number);
        data_ = static_cast<Number*>(std::align(64, size * sizeof(Number), start, space));
    }

    Number* data() { return data_; }
    const Number* data() const { return data_; }

private:
    std::vector<Number> storage_;
    Number* data_ = nullptr;
};

} // namespace wolfmeans
