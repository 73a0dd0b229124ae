// The members of the document of /api/live: what the reference and its JSON schema are made of. A test holds documents
// against them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "config/table_reader.hpp"

namespace weir::proxy::live {

enum class MemberType : std::uint8_t { text, whole, number, flag, list, object, rows };

/// A value may be null, which is unknown; an object and rows are always there, but for those that say so.
struct Member {
  /// As in "pools.*.ttft_s.p50": `*` stands for the name of a row, and `[]` for an element of a list.
  std::string_view path;
  MemberType type;
  config::About about;
};

std::span<const Member> members();

}  // namespace weir::proxy::live
