#include "metrics/wire/json/canonical.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "metrics/wire/json/on_demand.hpp"
#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::wire {

namespace {

bool is_json(std::string_view text) {
  JsonParser<Sax> json;
  json.feed(text);
  json.feed(" ");  // Only the byte behind a number shows its end.
  return json.whole();
}

std::string canonical(simdjson::ondemand::value value);

std::string canonical_object(simdjson::ondemand::object object) {
  std::vector<std::pair<std::string, std::string>> members;
  for (auto member : object) {
    std::string key(member.unescaped_key().value());
    members.emplace_back(std::move(key), canonical(member.value()));
  }
  std::ranges::stable_sort(members, {}, [](const auto& member) -> const std::string& { return member.first; });
  JsonWriter json;
  json.open('{');
  for (const auto& [key, written] : members) json.key(key).raw(written);
  return json.close('}').written();
}

std::string canonical_array(simdjson::ondemand::array array) {
  JsonWriter json;
  json.open('[');
  for (auto element : array) json.raw(canonical(element.value()));
  return json.close(']').written();
}

std::string canonical(simdjson::ondemand::value value) {
  using simdjson::ondemand::json_type;
  switch (value.type()) {
    case json_type::object:
      return canonical_object(value.get_object());
    case json_type::array:
      return canonical_array(value.get_array());
    case json_type::string:
      return JsonWriter().text(value.get_string().value()).written();
    default:
      return std::string(token_of(value));
  }
}

}  // namespace

std::optional<std::string> canonical_json(std::string_view text) {
  if (!is_json(text)) return std::nullopt;
  // On-Demand reads a lone scalar in its own way, so the text is read as the one element of an array.
  const simdjson::padded_string padded("[" + std::string(text) + "]");
  simdjson::ondemand::parser parser;
  auto document = parser.iterate(padded);
  const auto inside = canonical_array(document.get_array());
  return inside.substr(1, inside.size() - 2);
}

}  // namespace weir::metrics::wire
