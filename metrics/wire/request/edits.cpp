#include "metrics/wire/request/edits.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "metrics/wire/dialects/dialect.hpp"

namespace weir::metrics::wire {

namespace {

/// A member to look for.
struct WantedMember {
  std::string_view name;
  std::string_view value{};  // "" if the member is missing.

  bool is_there() const { return !value.empty(); }
  bool is_off() const { return value == "false" || value == "null"; }
};

/// Walks the bytes of JSON that the inspector has found whole, so it needs to know only strings and brackets.
class Walk {
 public:
  Walk(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  /// Finds members of the object that begins here. Returns false if one of them is there twice, or if a name is written
  /// with escapes.
  bool find(std::span<WantedMember> wanted, bool& empty) {
    ++at_;
    for (skip_blanks(); at_ < text_.size() && text_[at_] != '}'; skip_blanks()) {
      empty = false;
      const std::string_view name = value();
      if (name.size() < 2 || name.find('\\') != std::string_view::npos) return false;
      skip_blanks();
      ++at_;  // Skips the colon.
      skip_blanks();
      const std::string_view text = value();
      for (WantedMember& one : wanted) {
        if (name.substr(1, name.size() - 2) != one.name) continue;
        if (one.is_there()) return false;
        one.value = text;
      }
      skip_blanks();
      if (at_ < text_.size() && text_[at_] == ',') ++at_;
    }
    return true;
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  void skip_string() {
    for (++at_; at_ < text_.size(); ++at_) {
      at_ = std::min(text_.find('"', at_), text_.size());
      std::size_t escapes = 0;
      while (text_[at_ - escapes - 1] == '\\') ++escapes;
      if (escapes % 2 == 0) break;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  std::string_view value() {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    do {
      const char c = at_ < text_.size() ? text_[at_] : '}';
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) break;
        --depth;
        ++at_;
      } else if (depth > 0) {
        ++at_;
      } else {
        at_ = std::min(text_.find_first_of(",}] \t\r\n", at_), text_.size());
      }
    } while (depth > 0 && at_ < text_.size());
    return text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  std::size_t at_;
};

/// Puts `text` in place of a value, which lies in `body`.
RequestEdit replace(std::string_view body, std::string_view value, std::string_view text) {
  return {static_cast<std::uint64_t>(value.data() - body.data()), value.size(), text};
}

/// A larger body is not walked: the walk would delay a loop's streams.
constexpr std::size_t longest_walk = 256 * 1024;

/// Asks for usage within the stream_options that the client sent without asking for it.
RequestEdits ask_by_options(bool every_chunk, const RequestFacts& facts, std::string_view body) {
  if (body.size() > longest_walk) return {};
  WantedMember options[] = {{"stream_options"}};
  bool empty = true;
  if (!Walk(body, *facts.first_member_at - 1).find(options, empty)) return {};
  const std::string_view sent = options[0].value;
  RequestEdits edits;
  if (sent == "null") {
    edits.add(
        replace(body, sent,
                every_chunk ? R"({"include_usage":true,"continuous_usage_stats":true})" : R"({"include_usage":true})"));
    return edits;
  }
  if (!sent.starts_with('{')) return {};
  WantedMember members[] = {{"include_usage"}, {"continuous_usage_stats"}};
  auto& [include, continuous] = members;
  if (!Walk(sent, 0).find(members, empty = true)) return {};
  if (include.is_there() && !include.is_off()) return {};
  // Some engines give usage on every chunk without include_usage (SGLang), some only beside it (vLLM). So nobody knows
  // what the client would have got without an edit, and weir makes none.
  if (continuous.is_there() && !continuous.is_off()) return {};

  const bool add_continuous = every_chunk && !continuous.is_there();
  std::string_view added;
  if (!include.is_there()) {
    added = add_continuous ? R"("include_usage":true,"continuous_usage_stats":true,)" : R"("include_usage":true,)";
  } else if (add_continuous) {
    added = R"("continuous_usage_stats":true,)";
  }
  if (empty) added.remove_suffix(1);  // No member follows.
  if (!added.empty()) edits.add(replace(body, sent.substr(1, 0), added));
  const WantedMember* in_order[] = {&include, &continuous};
  if (continuous.value.data() < include.value.data()) std::swap(in_order[0], in_order[1]);
  for (const auto* member : in_order) {
    if (member->is_there() && (member == &include || every_chunk)) edits.add(replace(body, member->value, "true"));
  }
  return edits;
}

}  // namespace

std::uint64_t edited_size(std::uint64_t bytes, std::span<const RequestEdit> edits) {
  for (const RequestEdit& edit : edits) bytes += edit.text.size() - edit.erased;
  return bytes;
}

void append_edited(std::string_view body, std::span<const RequestEdit> edits, std::vector<std::string_view>& spans) {
  spans.reserve(spans.size() + 2 * edits.size() + 1);
  std::size_t at = 0;
  for (const RequestEdit& edit : edits) {
    spans.push_back(body.substr(at, edit.at - at));
    spans.push_back(edit.text);
    at = edit.at + edit.erased;
  }
  spans.push_back(body.substr(at));
}

RequestEdits edits_that_ask(Ask ask, const RequestFacts& facts, std::string_view body) {
  if (ask == Ask::nothing || !facts.stream || !facts.first_member_at) return {};
  if (!dialect_of(facts.api).takes_stream_options) return {};
  RequestEdits edits;
  const bool every_chunk = ask == Ask::usage_on_every_chunk;
  // A member put in front always has another behind it, since a request that streams has `stream`.
  if (ask == Ask::timings_on_every_chunk) {
    if (!facts.token_timings) edits.add({*facts.first_member_at, 0, R"("timings_per_token":true,)"});
  } else if (!facts.stream_options) {
    edits.add({*facts.first_member_at, 0,
               every_chunk ? R"("stream_options":{"include_usage":true,"continuous_usage_stats":true},)"
                           : R"("stream_options":{"include_usage":true},)"});
  } else if (!facts.usage_requested) {
    edits = ask_by_options(every_chunk, facts, body);
  }
  if (!edits.empty()) edits.asked = ask;
  return edits;
}

std::optional<std::vector<RequestEdit>> edits_that_set(std::span<const SetMember> members, const RequestFacts& facts,
                                                       std::string_view body) {
  std::vector<RequestEdit> edits;
  if (members.empty()) return edits;
  // An inference request has members, so one that is put in front has another behind it.
  if (!facts.first_member_at || facts.empty_object) return std::nullopt;
  std::vector<WantedMember> wanted;
  for (const auto& one : members) wanted.push_back({one.key});
  bool empty = true;
  if (!Walk(body, *facts.first_member_at - 1).find(wanted, empty)) return std::nullopt;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool is_there = wanted[i].is_there();
    const auto place = is_there ? wanted[i].value : body.substr(*facts.first_member_at, 0);
    edits.push_back(replace(body, place, is_there ? members[i].json : members[i].whole));
  }
  std::ranges::stable_sort(edits, {}, &RequestEdit::at);
  return edits;
}

}  // namespace weir::metrics::wire
