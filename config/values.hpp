// The kinds of TOML value: each is a small callable from a node to a value, or to the sentence that says what it must
// be. That sentence is the same for a wrong type and for a wrong range, so that reading it once is enough.
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

#include "config/parsed.hpp"
#include "config/settings.hpp"

namespace weir::config {

/// Reads true or false.
Parsed<bool> flag(const toml::node& node);

/// Reads a whole number; the bounds are allowed.
template <std::integral T>
struct Whole {
  std::int64_t least, most;
  Parsed<T> operator()(const toml::node& node) const;
};

/// Reads a number, whole or not; the bounds are allowed.
struct Number {
  double least, most;
  Parsed<double> operator()(const toml::node& node) const;
};

/// Reads seconds as a number, or text such as "250ms": at least a millisecond, at most a day.
Parsed<Seconds> time(const toml::node& node);

/// Reads the same where zero has a meaning.
Parsed<Seconds> time_or_zero(const toml::node& node);

/// Reads bytes as a whole number, or text such as "16MiB"; the bounds are allowed.
struct Size {
  std::int64_t least, most;
  Parsed<std::size_t> operator()(const toml::node& node) const;
};

/// Reads one line of free text.
struct Text {
  std::size_t longest;  ///< In bytes.
  bool may_be_empty = false;
  Parsed<std::string> operator()(const toml::node& node) const;
};

/// Reads a name that also stands in paths, headers and labels.
Parsed<std::string> name(const toml::node& node);

/// Reads the path of requests that are let through, "default" or "*".
Parsed<std::string> request_path(const toml::node& node);

/// The path of a request of weir's own, or "" for no request.
Parsed<std::string> path_or_none(const toml::node& node);

/// Reads "key", "address", or "header:NAME".
Parsed<FairBy> fair_by(const toml::node& node);

/// Reads "key", "header:NAME", or "body:MEMBER".
Parsed<SessionBy> session_by(const toml::node& node);

/// Reads "conversation", "request", or "header:NAME".
Parsed<Shadow::SampleBy> sample_by(const toml::node& node);

Parsed<ListenAddress> address(const toml::node& node);

/// Reads an address, or nothing for "".
Parsed<std::optional<ListenAddress>> address_or_off(const toml::node& node);

/// Reads an address, a network, or "unix:".
Parsed<Network> network(const toml::node& node);

/// Reads the origin of a web page, as a browser sends it, or "*".
Parsed<std::string> origin(const toml::node& node);

Parsed<ReplicaUrl> replica_url(const toml::node& node);

/// Reads one of the words of an enumeration.
template <class Enum, std::size_t N>
struct OneOf {
  std::array<std::pair<std::string_view, Enum>, N> words;
  Parsed<Enum> operator()(const toml::node& node) const;
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

}  // namespace weir::config
