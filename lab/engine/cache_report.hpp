// Reports of an engine about the prompt tokens that it found in its cache, true or not.
#pragma once

#include <cstdint>
#include <optional>

namespace weir::lab::engine {

enum class CacheReport : std::uint8_t {
  exact,
  none,    ///< Nothing is said, as by vLLM without --enable-prompt-tokens-details.
  half,    ///< Half of them: a wrong report.
  coarse,  ///< Whole pages of 64 tokens only.
  nonzero,  ///< Nothing is said where nothing was found, as by SGLang and many versions of vLLM.
};

/// Returns what is said of `cached` tokens.
inline std::optional<std::uint64_t> reported_tokens(CacheReport report, std::uint64_t cached) {
  constexpr std::uint64_t page = 64;
  switch (report) {
    case CacheReport::none:
      return std::nullopt;
    case CacheReport::half:
      return cached / 2;
    case CacheReport::coarse:
      return cached / page * page;
    case CacheReport::nonzero:
      return cached > 0 ? std::optional(cached) : std::nullopt;
    case CacheReport::exact:
      break;
  }
  return cached;
}

}  // namespace weir::lab::engine
