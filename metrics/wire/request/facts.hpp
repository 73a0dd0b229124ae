// The facts of a request, as plain values.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/memory.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::metrics::wire {

/// The classes of script by which prompt tokens are estimated. Each has a row of its own in
/// balancer/estimate.hpp. A ninth class needs a wider counter in facts.cpp, which holds eight in one register.
enum class Script : std::uint8_t {
  letters,
  punctuation,
  digits,
  latin_extended,
  cyrillic_greek,
  abjad_indic_thai,
  cjk,
  other
};
inline constexpr std::size_t script_count = 8;

/// Code points of a request's text by class of script, and the parts for which a chat template adds tokens.
struct TextFeatures {
  std::array<std::uint64_t, script_count> code_points{};
  std::uint32_t messages = 0;    ///< Counts messages; a system text by itself is one. It is 0 for a plain prompt.
  std::uint64_t tool_bytes = 0;  ///< The `tools` schema has so many bytes (its text is in code_points too).
  std::uint64_t chars() const;   ///< Returns the sum of code_points.
};

/// A model's name is cut behind so many bytes.
inline constexpr std::size_t longest_model = 128;

/// The facts of one request. A number out of range is treated as absent: the replica answers for it.
struct RequestFacts {
  std::string model;                              ///< As sent, cut at 128 bytes; "" if absent.
  std::optional<std::uint64_t> max_tokens;        ///< Each dialect has its own name for it. Absent means the engine's
                                                  ///< default.
  std::optional<std::uint64_t> prompt_token_ids;  ///< Counts the tokens given as ids. `text` comes on top of them.
  /// A member can be put into the body's outermost object here, just behind its `{`. Absent unless whole_json.
  std::optional<std::uint64_t> first_member_at;
  /// A keyed hash of the model, the system text, and the messages up to and including the first of the user, by role
  /// and text; for a plain prompt, of its text. All turns of one conversation have the same, and images do not count.
  /// 0 if there is none: without a key, where `user_messages` is 0, or where token ids are part of the prompt.
  std::uint64_t conversation = 0;
  Rare<Names> names;  ///< The names in the body that tie the request to a replica or a session.
  TextFeatures text;
  std::uint32_t n = 1;        ///< The number of choices, times that of prompts in a list; it multiplies the output.
  std::uint32_t prompts = 1;  ///< The number of prompts in the list; 1 if there is no list.
  std::uint32_t images = 0;   ///< Counts parts that are no text: images, audio, files. Their data counts nowhere else.
  /// Counts the messages whose role is `user`: the turn of the conversation. It is 1 for a plain prompt, and 0 where it
  /// is unknown, because the engine keeps earlier turns or no message has this role.
  std::uint32_t user_messages = 0;
  Api api = Api::other;
  bool gives_work = true;       ///< A POST. A GET or an OPTIONS gives the engine no tokens to work on.
  bool empties_cache = false;   ///< An engine that answers it well has an empty prefix cache: see dialects/dialect.hpp.
  bool model_twice = false;     ///< The outermost object has two members of that name, without regard to case.
  bool stream = false;          ///< The client asked for an event stream.
  bool greedy = false;          ///< Asks for temperature 0; on TGI's route it has no option that only sampling uses.
  bool tools = false;           ///< Offers tools.
  bool stores = true;           ///< False where the client asks the engine not to keep the answer (Responses).
  bool stored_context = false;  ///< The engine adds context of earlier requests to the prompt (Responses).
  bool usage_requested = false;  ///< stream_options.include_usage is true.
  bool stream_options = false;   ///< The client sent stream_options itself, of whatever type.
  bool token_timings = false;    ///< The client sent llama.cpp's timings_per_token itself.
  bool whole_json = false;       ///< The body was one JSON object. Any other body is relayed all the same.
  bool empty_object = false;     ///< The object is `{}`: a member put there takes no comma.

  std::uint64_t name(NamedBy by) const { return (*names)[static_cast<std::size_t>(by)]; }
};

// Counts the code points of a text by class of script, in pieces that may be cut anywhere.

Script script_of(char32_t code_point);

/// Counts at about 0.1 ns a byte of ASCII and 1 ns a byte of other scripts. The text must be valid UTF-8 except at the
/// cuts.
class ScriptCounter {
 public:
  void add(std::string_view piece);
  /// Counts text as it is written in a JSON string, as long as it is ASCII with escapes of one letter other than \b.
  /// Returns where other text begins, where the string ends, or where less than a block of bytes is left.
  const char* add_written(const char* at, const char* end);
  void clear() { *this = ScriptCounter(); }
  const std::array<std::uint64_t, script_count>& counts() const { return counts_; }

 private:
  class Ascii;

  const unsigned char* add_ascii(const unsigned char* at, const unsigned char* end);
  void add_cut(unsigned char c);  // Adds a byte of a code point that lies in two pieces.
  std::uint64_t& count(Script script) { return counts_[static_cast<std::size_t>(script)]; }

  std::array<std::uint64_t, script_count> counts_{};
  char32_t unfinished_ = 0;  // The last bytes of this code point come with the next piece.
  unsigned bytes_missing_ = 0;
};

// Which members some engine takes for `model`: Go's and .NET's readers of JSON compare names without regard to case.

/// True for `model` in whatever case.
inline bool is_model(std::string_view member) {
  constexpr std::string_view model = "model";
  return std::ranges::equal(member, model, [](char a, char b) { return a == b || a == b - ('a' - 'A'); });
}

}  // namespace weir::metrics::wire
