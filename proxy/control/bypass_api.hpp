// Bypass: in an emergency weir relays what comes, and reads neither requests nor answers.
#pragma once

#include <atomic>
#include <string_view>

#include "proxy/control/api.hpp"

namespace weir::proxy::control {

/// The log's line when bypass is switched on.
inline constexpr std::string_view bypass_is_on =
    "BYPASS is on: requests are relayed as they are, no usage is asked for, no answer is read, nothing is mirrored; "
    "TTFT, ITL and token counts of these requests are missing; `weir bypass off` ends it";

/// Switches bypass, and says so in the log. Requests under way go on as they began. The answer is
/// {"bypass":true,"changed":true}.
ApiAnswer bypass_answer(std::atomic<bool>& bypass, bool on);

}  // namespace weir::proxy::control
