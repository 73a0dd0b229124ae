// SHA-256, as it identifies clients' keys. Stateless.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::proxy::keys {

using Sha256 = std::array<std::uint8_t, 32>;

/// Costs about a quarter of a microsecond for a key.
Sha256 sha256(std::string_view bytes);

/// Returns 64 hex digits.
std::string hex(const Sha256& hash);

}  // namespace weir::proxy::keys
