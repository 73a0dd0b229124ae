#include "metrics/compare/samples/log_reading.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "metrics/text.hpp"
#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::compare::samples {
namespace {

static_assert(line_padding >= simdjson::SIMDJSON_PADDING);

using Value = simdjson::ondemand::value;

/// The facts of a line that a sample needs besides its own members.
struct Line {
  Sample& sample;
  Names& names;
  ForReplay* replay = nullptr;
  bool version_1 = false, has_outcome = false, has_api = false, complete = false, tokens_only_counted = false,
       warm_up = false;
  std::optional<std::int64_t> time_us;
  std::optional<bool> served;
  double queue = 0;
};

std::optional<std::string_view> text_of(Value& value) {
  std::string_view text;
  if (!wire::is(value, simdjson::ondemand::json_type::string) || value.get_string().get(text)) return std::nullopt;
  return text;
}

std::optional<double> seconds_of(Value& value) {
  double number = 0;
  if (!wire::is(value, simdjson::ondemand::json_type::number) || value.get_double().get(number)) return std::nullopt;
  return number >= 0 && number <= longest_s ? std::optional(number) : std::nullopt;
}

std::optional<bool> flag_of(Value& value) {
  bool flag = false;
  if (!wire::is(value, simdjson::ondemand::json_type::boolean) || value.get_bool().get(flag)) return std::nullopt;
  return flag;
}

/// Returns the index of a word in its table.
template <std::size_t N>
std::optional<std::uint8_t> word_of(Value& value, const std::array<std::string_view, N>& words) {
  const auto text = text_of(value);
  if (!text) return std::nullopt;
  const auto at = std::ranges::find(words, *text);
  if (at == words.end()) return std::nullopt;
  return static_cast<std::uint8_t>(at - words.begin());
}

template <float Sample::* member>
void time(Line& line, Value& value) {
  if (const auto number = seconds_of(value)) line.sample.*member = static_cast<float>(*number);
}

template <std::uint32_t Sample::* member>
void count(Line& line, Value& value) {
  if (const auto number = wire::count_of(value); number && *number < unknown_count) {
    line.sample.*member = static_cast<std::uint32_t>(*number);
  }
}

template <Names::Name Sample::* member>
void name(Line& line, Value& value) {
  if (const auto text = text_of(value)) line.sample.*member = line.names.of(*text);
}

template <Names::Name Sample::* member>
void name_of_peer(Line& line, Value& value) {
  if (const auto text = text_of(value)) line.sample.*member = line.names.of_peer(*text);
}

template <Id Sample::* member>
void id(Line& line, Value& value) {
  if (const auto text = text_of(value)) line.sample.*member = id_of(*text);
}

/// The log writes 16 hex digits. Whatever else stands there is a name of the conversation as well.
void read_group(Line& line, Value& value) {
  const auto text = text_of(value);
  if (!text || text->empty()) return;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), line.sample.group, 16);
  if (error == std::errc() && end == text->data() + text->size() && text->size() <= 16) return;
  line.sample.group = std::hash<std::string_view>()(*text) | 1;
}

template <bool Sample::* member>
void flag(Line& line, Value& value) {
  line.sample.*member = flag_of(value).value_or(false);
}

template <std::int8_t Sample::* member>
void maybe_flag(Line& line, Value& value) {
  if (const auto known = flag_of(value)) line.sample.*member = static_cast<std::int8_t>(*known);
}

/// Calls `add` with each pair of a list of pairs of numbers, until it returns false. Returns false if the list is no
/// such list, or `add` returned false.
template <class Add>
bool read_pairs(Value& value, const Add& add) {
  simdjson::ondemand::array list;
  if (!wire::is(value, simdjson::ondemand::json_type::array) || value.get_array().get(list)) return false;
  for (auto one : list) {
    simdjson::ondemand::array pair;
    if (one.get_array().get(pair)) return false;
    std::array<std::uint64_t, 2> numbers{};
    std::size_t read = 0;
    for (auto number : pair) {
      if (read == numbers.size() || number.get_uint64().get(numbers[read])) return false;
      ++read;
    }
    if (read != numbers.size() || numbers[1] > UINT32_MAX) return false;
    if (!add(numbers[0], static_cast<std::uint32_t>(numbers[1]))) return false;
  }
  return true;
}

void read_bins(Line& line, Value& value) {
  read_pairs(value, [&](std::uint64_t index, std::uint32_t count) {
    if (index > UINT16_MAX) return false;
    line.sample.gaps.push_back({static_cast<std::uint16_t>(index), count});
    return true;
  });
}

void read_prefixes(Line& line, Value& value) {
  if (!line.replay) return;
  auto& marks = line.replay->prefixes;
  const bool whole = read_pairs(value, [&](std::uint64_t position, std::uint32_t key) {
    if (!marks.empty() && position <= marks.back().position) return false;
    marks.push_back({position, key});
    return true;
  });
  if (!whole) marks.clear();
}

template <std::uint32_t ForReplay::* member>
void count_for_replay(Line& line, Value& value) {
  if (!line.replay) return;
  if (const auto number = wire::count_of(value); number && *number < unknown_count) {
    line.replay->*member = static_cast<std::uint32_t>(*number);
  }
}

/// All members are of the line itself.
enum class Level : std::uint8_t { line };

struct Member {
  std::string_view key;
  void (*read)(Line&, Value&);
  Level in = Level::line;
};

constexpr Member members[]{
    {"api",
     [](Line& line, Value& value) {
       if (const auto word = word_of(value, api_names)) {
         line.sample.api = static_cast<Api>(*word);
         line.has_api = true;
       }
     }},
    {"attempt", count_for_replay<&ForReplay::attempt>},
    {"cached_tokens", count<&Sample::cached_tokens>},
    {"common_prefix_bytes", count<&Sample::common_prefix_bytes>},
    {"complete", [](Line& line, Value& value) { line.complete = text_of(value).has_value(); }},
    {"config", name<&Sample::config>},
    {"drop_reason", name<&Sample::drop_reason>},
    {"e2e_s", time<&Sample::e2e>},
    {"finish_reason", name_of_peer<&Sample::finish_reason>},
    {"gap_bins", read_bins},
    {"greedy", flag<&Sample::greedy>},
    {"group", read_group},
    {"id", id<&Sample::id>},
    {"in_flight_at_start", count<&Sample::in_flight_at_start>},
    {"in_flight_mean", time<&Sample::in_flight_mean>},
    {"k_source", [](Line& line, Value& value) { line.sample.gaps_are_itl = text_of(value).has_value(); }},
    {"lasted_s", time<&Sample::lasted>},
    {"max_tokens", count_for_replay<&ForReplay::max_tokens>},
    {"model", name_of_peer<&Sample::model>},
    {"outcome",
     [](Line& line, Value& value) {
       if (const auto word = word_of(value, outcome_names)) {
         line.sample.outcome = static_cast<Outcome>(*word);
         line.has_outcome = true;
       }
     }},
    {"output_chars", count<&Sample::output_chars>},
    {"output_tokens", count<&Sample::output_tokens>},
    {"pair", id<&Sample::pair>},
    {"pool", name<&Sample::pool>},
    {"prefixes", read_prefixes},
    {"primary_valid_tools", maybe_flag<&Sample::primary_valid_tools>},
    {"prompt_chars", count<&Sample::prompt_chars>},
    {"prompt_tokens", count<&Sample::prompt_tokens>},
    {"prompt_tokens_estimate", count_for_replay<&ForReplay::prompt_tokens_estimate>},
    {"queue_s", [](Line& line, Value& value) { line.queue = seconds_of(value).value_or(0); }},
    {"reasoning_tokens", count<&Sample::reasoning_tokens>},
    {"replica", name<&Sample::replica>},
    {"role",
     [](Line& line, Value& value) {
       if (const auto word = word_of(value, role_names)) line.sample.role = static_cast<Role>(*word);
     }},
    {"same_text", maybe_flag<&Sample::same_text>},
    {"same_tools", maybe_flag<&Sample::same_tools>},
    {"served", [](Line& line, Value& value) { line.served = flag_of(value); }},
    {"shadow", name<&Sample::shadow>},
    {"status",
     [](Line& line, Value& value) {
       if (const auto number = wire::count_of(value); number && *number <= UINT16_MAX)
         line.sample.status = static_cast<std::uint16_t>(*number);
     }},
    {"stream", flag<&Sample::stream>},
    {"time",
     [](Line& line, Value& value) {
       if (const auto text = text_of(value)) line.time_us = parse_rfc3339(*text);
     }},
    {"tokens_source",
     [](Line& line, Value& value) { line.tokens_only_counted = text_of(value) == counted_tokens_source; }},
    {"tpot_s", time<&Sample::tpot>},
    {"ttft_client_s", time<&Sample::ttft_client>},
    {"ttft_s", time<&Sample::ttft>},
    {"turn", count<&Sample::turn>},
    {"v", [](Line& line, Value& value) { line.version_1 = wire::count_of(value) == std::optional<std::uint64_t>{1}; }},
    {"valid_tools", maybe_flag<&Sample::valid_tools>},
    {"warm_up", [](Line& line, Value& value) { line.warm_up = flag_of(value).value_or(false); }},
};

/// A line has about 70 keys, half of which mean nothing here.
const wire::MemberIndex<Member, Level::line>& member_index() {
  static const wire::MemberIndex<Member, Level::line> index({std::begin(members), std::end(members)});
  return index;
}

/// Lines of before there was `served` tell it as record::served() does, but for an error inside an answer whose client
/// left after its end.
bool served_by_outcome(const Line& line) {
  switch (line.sample.outcome) {
    case Outcome::ok:
    case Outcome::ok_empty:
      return true;
    case Outcome::client_abort:
      return line.complete && line.sample.status < 400;
    default:
      return false;
  }
}

}  // namespace

LineKind read_log_line(std::string_view text, Names& names, Sample& sample, ForReplay* replay) {
  sample = Sample{};
  if (replay) *replay = ForReplay{};
  if (text.size() > longest_line) return LineKind::broken;
  Line line{.sample = sample, .names = names, .replay = replay, .time_us = {}, .served = {}};
  const auto& index = member_index();
  const bool whole = wire::for_each_field_of(text, [&](simdjson::ondemand::raw_json_string key, Value& value) {
    // The keys of the log have no escapes, so a key is compared as it stands, up to its quote.
    const std::string_view behind(key.raw(), static_cast<std::size_t>(text.data() + text.size() - key.raw()));
    const auto word = behind.substr(0, behind.find('"'));
    if (const auto* const member = index.find(Level::line, word)) member->read(line, value);
    return true;
  });
  if (!whole) return LineKind::broken;
  if (!line.version_1 || !line.has_outcome || !line.has_api || !line.time_us) return LineKind::foreign;
  sample.received_us = *line.time_us;
  sample.dispatched_us = sample.received_us + microseconds_of(line.queue);
  if (replay) replay->output_tokens = sample.output_tokens;
  if (line.tokens_only_counted) sample.output_tokens = unknown_count;
  sample.served = line.served ? *line.served : served_by_outcome(line);
  sample.gaps.shrink_to_fit();
  return line.warm_up ? LineKind::warm_up : LineKind::request;
}

namespace {

/// True if the text has a digit where the shape has a zero, and the shape's own characters elsewhere.
bool has_shape(std::string_view text, std::string_view shape) {
  return std::ranges::equal(text, shape, [](char letter, char like) {
    return like == '0' ? letter >= '0' && letter <= '9' : letter == like;
  });
}

/// Returns the number that so many digits make.
int number_at(std::string_view text, std::size_t at, std::size_t digits) {
  int number = 0;
  for (const char digit : text.substr(at, digits)) number = number * 10 + (digit - '0');
  return number;
}

/// Takes a fraction of a second off the front, if there is one, and returns it in microseconds; -1 if it is wrong.
std::int64_t take_fraction(std::string_view& text) {
  if (!text.starts_with('.')) return 0;
  const auto end = std::min(text.find_first_not_of("0123456789", 1), text.size());
  std::string digits(text.substr(1, std::min<std::size_t>(end - 1, 6)));
  text.remove_prefix(end);
  if (digits.empty()) return -1;
  digits.resize(6, '0');
  return number_at(digits, 0, 6);
}

}  // namespace

std::optional<std::int64_t> parse_rfc3339(std::string_view text) {
  using namespace std::chrono;
  constexpr std::size_t behind_seconds = 19;
  if (text.size() <= behind_seconds) return std::nullopt;
  const std::string_view day = text.substr(0, 10), clock = text.substr(11, 8);
  if (!has_shape(day, "0000-00-00") || !has_shape(clock, "00:00:00")) return std::nullopt;
  if (std::string_view("Tt ").find(text[day.size()]) == std::string_view::npos) return std::nullopt;
  text.remove_prefix(behind_seconds);
  const std::int64_t us = take_fraction(text);
  int east = 0, east_minutes = 0;
  if (has_shape(text, "+00:00") || has_shape(text, "-00:00")) {
    east = number_at(text, 1, 2);
    east_minutes = number_at(text, 4, 2);
  } else if (text != "Z" && text != "z") {
    return std::nullopt;
  }
  const year_month_day date{year{number_at(day, 0, 4)}, month{static_cast<unsigned>(number_at(day, 5, 2))},
                            std::chrono::day{static_cast<unsigned>(number_at(day, 8, 2))}};
  const int hour = number_at(clock, 0, 2), minute = number_at(clock, 3, 2), second = number_at(clock, 6, 2);
  if (us < 0 || !date.ok() || hour > 23 || minute > 59 || second > 60 || east > 23 || east_minutes > 59)
    return std::nullopt;
  const int offset = (east * 60 + east_minutes) * (text.front() == '-' ? -60 : 60);
  const auto time =
      sys_days{date} + hours{hour} + minutes{minute} + std::chrono::seconds{std::min(second, 59) - offset};
  return duration_cast<microseconds>(time.time_since_epoch()).count() + us;
}

std::string format_rfc3339(std::int64_t us) {
  return timestamp(std::chrono::sys_time<std::chrono::microseconds>{std::chrono::microseconds{us}}, 0);
}

}  // namespace weir::metrics::compare::samples
