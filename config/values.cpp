#include "config/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "config/address.hpp"
#include "config/command_line.hpp"
#include "config/controls.hpp"

namespace weir::config {
namespace {

constexpr std::size_t longest_name = 64;
constexpr std::size_t longest_path = 1024;
constexpr Seconds shortest_time{0.001};
constexpr Seconds longest_time{24 * 3600.0};

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool is_name(std::string_view text) {
  // The first character keeps "." and ".." out of paths.
  return !text.empty() && text.size() <= longest_name && is_alphanumeric(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

bool is_header_name(std::string_view text) {
  constexpr std::string_view others = "!#$%&'*+-.^`|~";  // RFC 9110, 5.6.2, but "_": the gate drops such fields.
  return !text.empty() && text.size() <= longest_name && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || others.find(c) != std::string_view::npos;
  });
}

bool is_request_path(std::string_view text) {
  return text.starts_with('/') && text.size() <= longest_path &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f && c != '?' && c != '#'; });
}

Parsed<Seconds> time_from(Seconds least, const toml::node& node) {
  std::optional<Seconds> seconds;
  if (const auto* text = node.as_string()) {
    seconds = parse_duration(text->get());
  } else if (const auto number = node.is_number() ? node.value<double>() : std::nullopt) {
    seconds = Seconds{*number};
  }
  // The condition is written so that a NaN fails.
  if (seconds && *seconds >= least && *seconds <= longest_time) return *seconds;
  return Problem{"must be a time from " + format_duration(least) + " to " + format_duration(longest_time) +
                 ": a number of seconds, or text such as \"250ms\", \"2s\", \"5m\", \"2h\""};
}

Parsed<bool> read_flag(const toml::node& node) {
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  return Problem{"must be true or false, without quotes"};
}

Parsed<Seconds> read_time(const toml::node& node) { return time_from(shortest_time, node); }

Parsed<Seconds> read_time_or_zero(const toml::node& node) { return time_from(Seconds{0}, node); }

Parsed<std::string> read_name(const toml::node& node) {
  if (const auto* text = node.as_string(); text && is_name(text->get())) return text->get();
  return Problem{"must be a name in quotes: 1 to " + std::to_string(longest_name) +
                 " letters, digits, \".\", \"_\" and \"-\", beginning with a letter or digit"};
}

Parsed<std::string> read_request_path(const toml::node& node) {
  if (const auto* text = node.as_string();
      text && (text->get() == "*" || text->get() == "default" || is_request_path(text->get()))) {
    return text->get();
  }
  return Problem{
      "must be a path such as \"/v1/chat/completions\", without \"?\", \"#\" and spaces; \"default\" for the "
      "routes that weir knows; or \"*\" alone for every path"};
}

Parsed<std::string> read_path_or_none(const toml::node& node) {
  if (const auto* text = node.as_string(); text && (text->get().empty() || is_request_path(text->get())))
    return text->get();
  return Problem{
      "must be a path such as \"/health\", without \"?\", \"#\" and spaces; or \"\" to connect and ask nothing"};
}

Parsed<FairBy> read_fair_by(const toml::node& node) {
  constexpr std::string_view header = "header:";
  const auto* text = node.as_string();
  const std::string_view word = text ? std::string_view(text->get()) : std::string_view();
  if (word == "key") return FairBy{FairBy::What::key, ""};
  if (word == "address") return FairBy{FairBy::What::address, ""};
  if (word.starts_with(header) && is_header_name(word.substr(header.size())))
    return FairBy{FairBy::What::header, std::string(word.substr(header.size()))};
  return Problem{
      "must be \"key\" for the client's key, \"address\" for its address, or \"header:NAME\" for a header of "
      "its request, such as \"header:x-user\""};
}

Parsed<SessionBy> read_session_by(const toml::node& node) {
  using What = SessionBy::What;
  constexpr std::string_view header = "header:", body = "body:";
  const auto* text = node.as_string();
  const std::string_view word = text ? std::string_view(text->get()) : std::string_view();
  if (word == "key") return SessionBy{What::key, ""};
  if (word.starts_with(header) && is_header_name(word.substr(header.size())))
    return SessionBy{What::header, std::string(word.substr(header.size()))};
  std::string members;
  for (const auto member : session_members) {
    if (word.starts_with(body) && word.substr(body.size()) == member) return SessionBy{What::body, std::string(member)};
    members.append(members.empty() ? "\"body:" : ", \"body:").append(member).append("\"");
  }
  return Problem{
      "must be \"key\" for the client's key, \"header:NAME\" for a header of its request, such as "
      "\"header:x-session-id\", or a member of its JSON: " +
      members};
}

Parsed<ListenAddress> read_address(const toml::node& node) {
  const auto* text = node.as_string();
  return parse_address(text ? std::string_view(text->get()) : std::string_view());
}

Parsed<std::optional<ListenAddress>> read_address_or_off(const toml::node& node) {
  if (const auto* text = node.as_string(); text && text->get().empty()) return std::nullopt;
  auto parsed = read_address(node);
  if (auto* problem = std::get_if<Problem>(&parsed)) return Problem{problem->text + "; or \"\" to switch it off"};
  return std::get<ListenAddress>(std::move(parsed));
}

Parsed<Network> read_network(const toml::node& node) {
  const auto* text = node.as_string();
  return parse_network(text ? std::string_view(text->get()) : std::string_view());
}

Parsed<std::string> read_origin(const toml::node& node) {
  constexpr std::size_t longest = 256;
  const auto* text = node.as_string();
  const std::string_view word = text ? std::string_view(text->get()) : std::string_view();
  if (word == "*") return std::string(word);
  const auto colon = word.find("://");
  const auto scheme = word.substr(0, std::min(colon, word.size()));
  const auto is_lower = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto in_scheme = [&](char c) { return is_lower(c) || c == '-' || c == '+' || c == '.'; };
  const auto in_authority = [&](char c) {
    return is_lower(c) || std::string_view("-._~:[]").find(c) != std::string_view::npos;
  };
  const auto authority = colon == word.npos ? std::string_view() : word.substr(colon + 3);
  const bool default_port =
      (scheme == "http" && authority.ends_with(":80")) || (scheme == "https" && authority.ends_with(":443"));
  if (!scheme.empty() && !authority.empty() && word.size() <= longest && !default_port &&
      std::ranges::all_of(scheme, in_scheme) && std::ranges::all_of(authority, in_authority))
    return std::string(word);
  return Problem{
      "must be the origin of a page as browsers write it, scheme, host and a port that is not the scheme's own, in "
      "lower case and without a path, such as \"https://app.example\" or \"http://localhost:3000\"; or \"*\" for all"};
}

Parsed<ReplicaUrl> read_replica_url(const toml::node& node) {
  const auto* text = node.as_string();
  return parse_replica_url(text ? std::string_view(text->get()) : std::string_view());
}

std::string in_quotes(const std::string& text) { return text.empty() ? std::string() : '"' + text + '"'; }

std::string write_flag(const bool& value) { return value ? "true" : "false"; }

std::string write_time(const Seconds& time) {
  return time.count() == 0 ? std::string("0") : '"' + format_duration(time) + '"';
}

std::string write_fair_by(const FairBy& by) {
  using enum FairBy::What;
  return by.what == key ? "\"key\"" : by.what == address ? "\"address\"" : "\"header:" + by.header + '"';
}

std::string write_session_by(const SessionBy& by) {
  using enum SessionBy::What;
  return by.what == key ? "\"key\"" : (by.what == header ? "\"header:" : "\"body:") + by.name + '"';
}

std::string write_address(const ListenAddress& address) { return in_quotes(to_text(address)); }

std::string write_network(const Network& network) { return in_quotes(to_text(network)); }

std::string write_url(const ReplicaUrl& url) {
  return url.host.empty() && url.unix_path.empty() ? std::string() : in_quotes(to_text(url));
}

std::string write_address_or_off(const std::optional<ListenAddress>& address) {
  return address ? write_address(*address) : "\"\"";
}

}  // namespace

constinit const Reads<bool> flag{read_flag, "`true`, `false`", write_flag};
constinit const Reads<Seconds> time{read_time, "time, 1ms to 24h", write_time};
constinit const Reads<Seconds> time_or_zero{read_time_or_zero, "time, 0 to 24h", write_time};
constinit const Reads<std::string> name{read_name, "name", in_quotes};
constinit const Reads<std::string> request_path{read_request_path, "path", in_quotes};
constinit const Reads<std::string> path_or_none{read_path_or_none, "path or `\"\"`", in_quotes};
constinit const Reads<FairBy> fair_by{read_fair_by, "`\"key\"`, `\"address\"`, `\"header:NAME\"`", write_fair_by};
constinit const Reads<SessionBy> session_by{read_session_by, "text", write_session_by};
constinit const Reads<ListenAddress> address{read_address, "address", write_address};
constinit const Reads<std::optional<ListenAddress>> address_or_off{read_address_or_off, "address or `\"\"`",
                                                                   write_address_or_off};
constinit const Reads<Network> network{read_network, "network", write_network};
constinit const Reads<std::string> origin{read_origin, "origin", in_quotes};
constinit const Reads<ReplicaUrl> replica_url{read_replica_url, "url", write_url};

Parsed<double> Number::operator()(const toml::node& node) const {
  const auto number = node.is_number() ? node.value<double>() : std::nullopt;
  if (number && *number >= least && *number <= most) return *number;
  return Problem{"must be a number from " + format_number(least) + " to " + format_number(most)};
}

Parsed<std::size_t> Size::operator()(const toml::node& node) const {
  std::optional<std::int64_t> bytes;
  if (const auto* whole = node.as_integer()) bytes = whole->get();
  if (const auto* text = node.as_string()) bytes = parse_size(text->get());
  if (bytes && *bytes >= least && *bytes <= most) return static_cast<std::size_t>(*bytes);
  return Problem{"must be a size from " + format_size(least) + " to " + format_size(most) +
                 ": a whole number of bytes, or text such as \"64KiB\", \"16MiB\", \"1MB\""};
}

Parsed<std::string> Text::operator()(const toml::node& node) const {
  const auto* text = node.as_string();
  const bool fits = text && text->get().size() <= longest && (may_be_empty || !text->get().empty());
  if (fits && std::none_of(text->get().begin(), text->get().end(), is_control)) return text->get();
  return Problem{"must be one line of text in quotes, " + std::string(may_be_empty ? "" : "not empty and ") +
                 "at most " + std::to_string(longest) + " bytes long"};
}

Problem not_one_of(std::span<const std::string_view> words, const toml::node& node) {
  Problem problem{"must be one of"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    problem.text += (i == 0 ? " \"" : ", \"") + std::string(words[i]) + '"';
  }
  if (const auto* text = node.as_string()) {
    if (const auto meant = nearest(text->get(), words); !meant.empty()) {
      problem.text += "; did you mean \"" + std::string(meant) + "\"?";
    }
  }
  return problem;
}

Problem not_whole(std::int64_t least, std::int64_t most) {
  return Problem{"must be a whole number from " + std::to_string(least) + " to " + std::to_string(most)};
}

namespace {

// Units stand in order of size, so that formatting from the back finds the largest unit that divides.
constexpr std::pair<std::string_view, std::int64_t> times[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
constexpr std::pair<std::string_view, std::int64_t> binary_sizes[] = {
    {"B", 1}, {"KiB", 1LL << 10}, {"MiB", 1LL << 20}, {"GiB", 1LL << 30}};
constexpr std::pair<std::string_view, std::int64_t> decimal_sizes[] = {
    {"KB", 1000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}};

struct NumberAndUnit {
  std::string_view number, unit;
};

NumberAndUnit split(std::string_view text) {
  const auto end_of_number = text.find_first_not_of("0123456789.");
  if (end_of_number == std::string_view::npos) return {text, {}};
  auto unit = text.substr(end_of_number);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  return {text.substr(0, end_of_number), unit};
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  // from_chars takes "-1" and ".5", but a quantity begins with a digit.
  if (text.empty() || text.front() < '0' || text.front() > '9') return {};
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

template <class Units>
std::optional<std::int64_t> unit_in(std::string_view text, const Units& units) {
  for (const auto& [name, factor] : units) {
    if (name == text) return factor;
  }
  return {};
}

template <class Units>
std::string format_whole(std::int64_t amount, const Units& units) {
  if (amount == 0) return "0";
  for (auto unit = std::rbegin(units); unit != std::rend(units); ++unit) {
    if (amount % unit->second == 0) return std::to_string(amount / unit->second) + std::string(unit->first);
  }
  return std::to_string(amount);
}

}  // namespace

std::optional<Seconds> parse_duration(std::string_view text) {
  const auto [number_text, unit_text] = split(text);
  const auto number = number_in<double>(number_text);
  const auto milliseconds = unit_in(unit_text, times);
  if (!number || !milliseconds) return {};
  const double seconds = *number * (static_cast<double>(*milliseconds) / 1000);
  if (!std::isfinite(seconds)) return {};
  return Seconds{seconds};
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  const auto [number_text, unit_text] = split(text);
  const auto number = number_in<std::int64_t>(number_text);
  auto bytes = unit_in(unit_text, binary_sizes);
  if (!bytes) bytes = unit_in(unit_text, decimal_sizes);
  if (!number || !bytes || *number > std::numeric_limits<std::int64_t>::max() / *bytes) return {};
  return *number * *bytes;
}

std::string format_duration(Seconds time) { return format_whole(std::llround(time.count() * 1000), times); }

std::string format_size(std::int64_t bytes) { return format_whole(bytes, binary_sizes); }

std::string format_number(double number) {
  std::array<char, 400> text;  // The largest double has 309 digits before its point.
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  return error == std::errc{} ? std::string(text.data(), end) : std::string();
}

namespace {

constexpr std::size_t longest_shown = 80;  // These bytes are enough for a URL, and keep an error on one line.

std::string_view cut(std::string_view text) {
  if (text.size() <= longest_shown) return text;
  std::size_t length = longest_shown;
  while (length > 0 && continues_character(text[length])) --length;
  return text.substr(0, length);
}

std::string in_shown_quotes(std::string_view text) {
  const auto shown = cut(text);
  return '"' + one_line(shown) + (shown.size() < text.size() ? "...\"" : "\"");
}

std::string number(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  std::string result(text.data(), end);
  if (result.find_first_not_of("-0123456789") == std::string::npos)
    result += ".0";  // This keeps 1.0 from being shown
                     // as 1.
  return result;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto control = control_size(text);
    if (control > 0)
      append_escaped(result, text, control, true);
    else
      result += text.front();
    text.remove_prefix(std::max<std::size_t>(control, 1));
  }
  return result;
}

std::string show_text(std::string_view text) { return in_shown_quotes(without_credentials(text)); }

std::string show(const toml::node& value) {
  if (const auto* text = value.as_string()) return show_text(text->get());
  if (const auto* whole = value.as_integer()) return std::to_string(whole->get());
  if (const auto* floating = value.as_floating_point()) return number(floating->get());
  if (const auto* boolean = value.as_boolean()) return boolean->get() ? "true" : "false";
  if (const auto* list = value.as_array()) return list->empty() ? "[]" : "[...]";
  return value.is_table() ? "{...}" : "a date or time";
}

std::string show_key(std::string_view key) {
  constexpr std::string_view bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  const bool is_bare =
      !key.empty() && key.size() <= longest_shown && key.find_first_not_of(bare) == std::string_view::npos;
  return is_bare ? std::string(key) : in_shown_quotes(without_credentials(key));
}

}  // namespace weir::config
