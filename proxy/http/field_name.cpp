#include "proxy/http/field_name.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace weir::proxy::http {
namespace {

/// A name in lower case, with zeros behind it.
struct KnownName {
  std::array<char, 32> text{};
  std::size_t size = 0;
};

/// In the order of FieldName, from its second on.
constexpr std::string_view texts[]{"accept-encoding",
                                   "api-key",
                                   "authorization",
                                   "cache-control",
                                   "close",
                                   "connection",
                                   "content-encoding",
                                   "content-length",
                                   "content-type",
                                   "cookie",
                                   "expect",
                                   "forwarded",
                                   "host",
                                   "keep-alive",
                                   "ocp-apim-subscription-key",
                                   "origin",
                                   "proxy-authenticate",
                                   "proxy-authorization",
                                   "proxy-connection",
                                   "te",
                                   "trailer",
                                   "transfer-encoding",
                                   "upgrade",
                                   "via",
                                   "x-accel-buffering",
                                   "x-access-token",
                                   "x-amz-security-token",
                                   "x-api-key",
                                   "x-auth-token",
                                   "x-forwarded-for",
                                   "x-goog-api-key",
                                   "x-real-ip",
                                   "x-request-id",
                                   "x-weir-id",
                                   "x-weir-replica",
                                   "x-weir-shadow"};
static_assert(std::size(texts) == static_cast<std::size_t>(FieldName::x_weir_shadow));

constexpr std::size_t slot_count = 128;

/// Gives each known name a slot of its own. The factors were found by trying; the compiler checks them.
constexpr std::size_t slot_of(std::string_view text) {
  constexpr unsigned case_bit = 0x20;
  const unsigned first = static_cast<unsigned char>(text.front()) | case_bit;
  const unsigned last = static_cast<unsigned char>(text.back()) | case_bit;
  return (text.size() * 2 + first * 57 + last) % slot_count;
}

struct Table {
  std::array<KnownName, std::size(texts) + 1> names{};  ///< By FieldName. The first one is empty.
  std::array<FieldName, slot_count> in_slot{};
};

constexpr Table table = [] {
  Table made;
  for (std::size_t i = 0; i < std::size(texts); ++i) {
    auto& known = made.names[i + 1];
    known.size = texts[i].size();
    std::copy(texts[i].begin(), texts[i].end(), known.text.begin());
    made.in_slot[slot_of(texts[i])] = static_cast<FieldName>(i + 1);
  }
  return made;
}();

static_assert(std::ranges::all_of(texts, [](std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; });
  return plain && texts[static_cast<std::size_t>(table.in_slot[slot_of(text)]) - 1] == text;
}));

/// Compares all bytes, zeros too: a fixed number of them, so the compiler does it without a loop.
bool is(const KnownName& known, std::string_view text) {
  if (text.size() != known.size) return false;
  std::array<char, std::tuple_size_v<decltype(known.text)>> padded{};
  std::memcpy(padded.data(), text.data(), text.size());
  unsigned char difference = 0;
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const auto letter = static_cast<unsigned char>(known.text[i]);
    const auto either_case = (letter & 0x40) >> 1;  // Letters have 0x40; upper and lower case differ in 0x20.
    difference |= static_cast<unsigned char>((static_cast<unsigned char>(padded[i]) ^ letter) & ~either_case);
  }
  return difference == 0;
}

}  // namespace

FieldName field_name(std::string_view text) {
  if (text.empty()) return FieldName::other;
  const auto name = table.in_slot[slot_of(text)];
  return is(table.names[static_cast<std::size_t>(name)], text) ? name : FieldName::other;
}

}  // namespace weir::proxy::http
