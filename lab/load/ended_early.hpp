// Whether answers are as long as asked for where `ignore_eos` asked for exactly that. An engine that does not know the
// member ignores it, and says nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lab/load/connection.hpp"
#include "lab/text.hpp"

namespace weir::lab::load {

class EndedEarly {
 public:
  /// Only an answer whose engine told its tokens counts.
  void add(const Result& result) {
    if (!result.ok() || !result.stream.answer.output_tokens) return;
    ++answers_;
    if (*result.stream.answer.output_tokens < result.output_target) ++early_;
  }
  /// Returns a sentence if any answer was shorter.
  std::optional<std::string> warning() const {
    if (early_ == 0) return std::nullopt;
    return std::to_string(early_) + " of " + counted(answers_, "answer") +
           " had fewer tokens than asked for, although ignore_eos was sent; the engine may not know it.";
  }

 private:
  std::uint64_t answers_ = 0, early_ = 0;
};

}  // namespace weir::lab::load
