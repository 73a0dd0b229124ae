// Names that tie a request to a replica: ids of state that a replica keeps, and members that tell sessions apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "metrics/sip_hash.hpp"

namespace weir::metrics {

/// The member of a request that holds the name.
enum class NamedBy : std::uint8_t {
  stored,        ///< An id that a replica handed out: previous_response_id, a batch's input_file_id.
  conversation,  ///< An id that the client may have made up: `conversation`, or the id in SGLang's session_params.
  slot,          ///< llama.cpp's id_slot, from 0 on.
  user,
  session_id,
  safety_identifier,
  prompt_cache_key,
  nothing  ///< The member names nothing. Counts the others.
};

/// Hashes of names; 0 where the member is absent, empty or no name.
using Names = std::array<std::uint64_t, static_cast<std::size_t>(NamedBy::nothing)>;

/// The key of the hashes. All weirs have the same one, so that several of them, and one after a restart, send a name to
/// the same replica.
inline constexpr SipKey name_key{0x7765697220697320, 0x61206c6f77206461};

/// A hash of 0 stands for no name.
constexpr std::uint64_t name_of_hash(std::uint64_t hash) { return hash == 0 ? 1 : hash; }
inline std::uint64_t hash_of_name(std::string_view name) { return name_of_hash(sip_hash(name_key, name)); }

}  // namespace weir::metrics
