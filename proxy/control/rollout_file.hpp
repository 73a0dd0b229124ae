// The file in which rollouts outlast a restart of weir: rollouts.json in the directory of [admin] state.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "balancer/rollout/machine.hpp"
#include "metrics/sip_hash.hpp"

namespace weir::proxy::control {

/// A rollout as the file keeps it. With another pool or candidate it is another rollout.
struct KeptRollout {
  std::string pool, candidate;
  balancer::rollout::Standing standing;
  bool operator==(const KeptRollout&) const = default;
};

struct KeptRollouts {
  /// The key by which conversations get their numbers: with another one, each would be on a side of chance again.
  std::optional<metrics::SipKey> conversation_key;
  std::map<std::string, KeptRollout, std::less<>> rollouts;  ///< By name.
  bool operator==(const KeptRollouts&) const = default;
};

/// Returns the text of the file.
std::string text_of(const KeptRollouts& kept);
/// Reads such a text. Returns nothing if it is none, or damaged.
std::optional<KeptRollouts> rollouts_in(std::string_view text);

/// Reads the file of a directory. A missing file, and "" for a directory, is one without rollouts. A file that cannot
/// be used is moved aside and logged; its rollouts are then idle, and their candidates get no request.
KeptRollouts read_rollouts(const std::string& directory);
/// Writes the file so that a crash at any time leaves the old one or the new one, and reaches the disk before it
/// returns. Only weir's user may read it. Returns a sentence if it cannot be written.
std::optional<std::string> write_rollouts(const std::string& directory, const KeptRollouts& kept);
/// Tries whether the file can be written there. Returns "", or a clause that says why not, and the way out. It leaves
/// nothing behind.
std::string why_not_kept(const std::string& directory);
/// The text that a restart finds in place of an old one.
enum class Replaced : std::uint8_t { by_new, by_nothing, not_at_all };
/// Takes care that a restart does not find the old text, where the new one cannot be written: writes over it, or
/// removes it, so that all rollouts are idle then. A file system that was made read-only allows neither.
Replaced replace_rollouts(const std::string& directory, const KeptRollouts& kept);

}  // namespace weir::proxy::control
