// The kinds of TOML value: each is a small callable from a node to a value, or to the sentence that says what it must
// be. That sentence is the same for a wrong type and for a wrong range, so that reading it once is enough. A kind also
// describes itself for the reference: `type()` says what values it takes, and `written()` writes one.
#pragma once

#include <toml++/toml.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "config/settings.hpp"

namespace weir::config {

/// Says why a value is refused, as the end of "KEY = VALUE: ...": what it must be and what to write instead.
struct Problem {
  std::string text;
};

template <class T>
using Parsed = std::variant<T, Problem>;

// Reads and writes times and sizes as text, such as "250ms" and "16MiB": one number and one unit, with at most a space
// between them.

/// Reads "250ms", "1.5s", "5m", "2h". Returns nothing if the text is no such time. A time is finite and not negative.
std::optional<Seconds> parse_duration(std::string_view text);

/// Reads "512B", "64KiB", "1MB" (1000 * 1000), in whole numbers only. Returns nothing if the text is no such size or is
/// beyond 2^63.
std::optional<std::int64_t> parse_size(std::string_view text);

/// Returns the shortest text that the functions above read back; "0" for zero.
std::string format_duration(Seconds time);
std::string format_size(std::int64_t bytes);

/// Returns a number without an exponent, as short as it reads back: "0.001", "1000".
std::string format_number(double number);

/// A kind for which functions are enough. `type` and `range` describe it in the reference.
template <class T>
struct Reads {
  Parsed<T> (*parse)(const toml::node& node);
  std::string_view name;
  std::string (*write)(const T& value) = nullptr;  ///< Writes a value as the file has it; "" if it stands for none.
  Parsed<T> operator()(const toml::node& node) const { return parse(node); }
  std::string type() const { return std::string(name); }
  std::string written(const T& value) const { return write ? write(value) : std::string(); }
};

/// Reads true or false.
extern const Reads<bool> flag;

/// Reads a whole number; the bounds are allowed.
template <std::integral T>
struct Whole {
  std::int64_t least, most;
  Parsed<T> operator()(const toml::node& node) const;
  std::string type() const { return "whole number, " + std::to_string(least) + " to " + std::to_string(most); }
  std::string written(T value) const { return std::to_string(value); }
};

/// Reads a number, whole or not; the bounds are allowed.
struct Number {
  double least, most;
  Parsed<double> operator()(const toml::node& node) const;
  std::string type() const { return "number, " + format_number(least) + " to " + format_number(most); }
  std::string written(double value) const { return format_number(value); }
};

/// Reads seconds as a number, or text such as "250ms": at least a millisecond, at most a day.
extern const Reads<Seconds> time;

/// Reads the same where zero has a meaning.
extern const Reads<Seconds> time_or_zero;

/// Reads bytes as a whole number, or text such as "16MiB"; the bounds are allowed.
struct Size {
  std::int64_t least, most;
  Parsed<std::size_t> operator()(const toml::node& node) const;
  std::string type() const { return "size, " + format_size(least) + " to " + format_size(most); }
  std::string written(std::size_t value) const { return '"' + format_size(static_cast<std::int64_t>(value)) + '"'; }
};

/// Reads one line of free text.
struct Text {
  std::size_t longest;  ///< In bytes.
  bool may_be_empty = false;
  Parsed<std::string> operator()(const toml::node& node) const;
  std::string type() const { return "text"; }
  std::string written(const std::string& value) const {
    return value.empty() && !may_be_empty ? std::string() : '"' + value + '"';
  }
};

/// Reads a name that also stands in paths, headers and labels.
extern const Reads<std::string> name;

/// Reads the path of requests that are let through, "default" or "*".
extern const Reads<std::string> request_path;

/// The path of a request of weir's own, or "" for no request.
extern const Reads<std::string> path_or_none;

/// Reads "key", "address", or "header:NAME".
extern const Reads<FairBy> fair_by;

/// Reads "key", "header:NAME", or "body:MEMBER".
extern const Reads<SessionBy> session_by;

extern const Reads<ListenAddress> address;

/// Reads an address, or nothing for "".
extern const Reads<std::optional<ListenAddress>> address_or_off;

/// Reads an address, a network, or "unix:".
extern const Reads<Network> network;

/// Reads the origin of a web page, as a browser sends it, or "*".
extern const Reads<std::string> origin;

extern const Reads<ReplicaUrl> replica_url;

/// Reads one of the words of an enumeration.
template <class Enum, std::size_t N>
struct OneOf {
  std::array<std::pair<std::string_view, Enum>, N> words;
  Parsed<Enum> operator()(const toml::node& node) const;
  std::string type() const {
    std::string all;
    for (const auto& [word, value] : words) all.append(all.empty() ? "`\"" : ", `\"").append(word).append("\"`");
    return all;
  }
  std::string written(Enum value) const {
    for (const auto& [word, one] : words)
      if (one == value) return '"' + std::string(word) + '"';
    return {};
  }
};

/// Says why a node is none of these words or numbers. The templates above share it.
Problem not_one_of(std::span<const std::string_view> words, const toml::node& node);
Problem not_whole(std::int64_t least, std::int64_t most);

template <std::integral T>
Parsed<T> Whole<T>::operator()(const toml::node& node) const {
  const auto* number = node.as_integer();
  if (!number || number->get() < least || number->get() > most) return not_whole(least, most);
  return static_cast<T>(number->get());
}

template <class Enum, std::size_t N>
Parsed<Enum> OneOf<Enum, N>::operator()(const toml::node& node) const {
  std::array<std::string_view, N> known;
  for (std::size_t i = 0; i < N; ++i) {
    known[i] = words[i].first;
    if (const auto* text = node.as_string(); text && text->get() == known[i]) return words[i].second;
  }
  return not_one_of(known, node);
}

// Shows in an error what stands in the file: short, on one line, without control characters, without passwords.

/// Shows a value, about as it was written; lists and tables only as "[...]" and "{...}".
std::string show(const toml::node& value);

/// Shows text in quotes.
std::string show_text(std::string_view text);

/// Shows a key: bare if TOML allows that, else in quotes.
std::string show_key(std::string_view key);

/// Returns any text with its control characters escaped, as in TOML.
std::string one_line(std::string_view text);

}  // namespace weir::config
