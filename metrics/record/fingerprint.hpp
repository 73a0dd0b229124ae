// Keyed hashes of an answer's content, by which it can be compared with another's without keeping its text.
//
// The hashes of two answers can be compared only if one key made them. A fingerprint has at most 4 KiB of checkpoints
// and 1.5 KiB of calls; while it is made, the arguments of one call are held, at most 16 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/sip_hash.hpp"
#include "metrics/wire/stream/content_listener.hpp"

namespace weir::metrics::record {

struct Fingerprint {
  static constexpr std::uint64_t checkpoint_every = 64, checkpoints_up_to = 16 * 1024;
  static constexpr std::size_t longest_arguments = 16 * 1024, most_calls = 64;

  struct Text {
    std::uint64_t hash = 0, bytes = 0;
    std::vector<std::uint64_t> checkpoints;  ///< The hashes of its first 64, 128, ... bytes.
    bool operator==(const Text&) const = default;
  };
  struct Call {
    std::uint64_t name = 0;
    std::uint64_t arguments = 0;  ///< The hash of canonical JSON (wire/json/canonical.hpp), else of the text.
    bool valid = false;           ///< The arguments are JSON.
    bool operator==(const Call&) const = default;
  };

  bool text_known = false, calls_known = false;  ///< An unknown part can be compared with nothing.
  /// Reasoning that has a member of its own comes first in the comparison, wherever the engine wrote it.
  Text reasoning, text;
  std::vector<Call> calls;
  bool operator==(const Fingerprint&) const = default;
};

/// How far two answers, a and b, agree.
struct Likeness {
  std::optional<bool> same_text;  ///< Absent where one of the two is not known.
  /// The whole length if the texts are equal. Else so many bytes are equal and the next 64 are not, or lie behind the
  /// last checkpoint.
  std::optional<std::uint64_t> common_prefix_bytes;
  /// The same names in the same order, with equal arguments. Absent where one side is not known or neither calls.
  std::optional<bool> same_tools;
  bool calls = false;                     ///< Both are known, and one at least calls.
  bool a_valid = false, b_valid = false;  ///< Calls, and the arguments of each of its calls are JSON.
};

Likeness likeness(const Fingerprint& a, const Fingerprint& b);

/// Makes a fingerprint of what it is told. Any cut into pieces gives the same.
class FingerprintMaker final : public wire::ContentListener {
 public:
  explicit FingerprintMaker(const SipKey& key) : key_(key), reasoning_(key), text_(key), name_(key) {}

  void text(std::string_view piece) override { text_.add(piece); }
  void reasoning(std::string_view piece) override { reasoning_.add(piece); }
  void call_name(std::string_view piece) override { name_.add(piece); }
  void call_arguments(std::string_view piece) override;
  void end_call() override;
  void lost_text() override { made_.text_known = false; }
  void lost_calls() override { made_.calls_known = false; }

  /// Is to be called once, when the answer has ended.
  Fingerprint finish();

 private:
  class TextHash {
   public:
    explicit TextHash(const SipKey& key) : hash_(key) {}
    void add(std::string_view piece);
    Fingerprint::Text finish();

   private:
    SipHash hash_;
    std::vector<std::uint64_t> checkpoints_;
  };

  SipKey key_;
  TextHash reasoning_, text_;
  SipHash name_;           // The open call's.
  std::string arguments_;  // The open call's.
  Fingerprint made_{.text_known = true, .calls_known = true, .reasoning = {}, .text = {}, .calls = {}};
};

}  // namespace weir::metrics::record
