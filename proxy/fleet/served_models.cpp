#include "proxy/fleet/served_models.hpp"

#include <simdjson.h>

#include <algorithm>

#include "metrics/wire/json/writer.hpp"
#include "proxy/fleet/engine_page.hpp"

namespace weir::proxy::fleet {
namespace {

/// A list that is nested deeper is none: clients may not read it.
constexpr std::size_t deepest = 32;

/// Returns the entry of a model that the settings name and no replica has told of.
ModelEntry entry_named(const std::string& id) {
  metrics::wire::JsonWriter json;
  json.open('{').key("id").text(id).key("object").text("model").key("owned_by").text("weir").close('}');
  return {id, json.written()};
}

/// Returns "" for an entry without an id. Clients read the last of two, as most readers of JSON do.
std::string_view id_of(const simdjson::dom::element& entry) {
  std::string_view id;
  simdjson::dom::object members;
  if (entry.get(members)) return id;
  for (const auto [name, value] : members)
    if (name == "id" && value.get(id)) id = {};
  return id;
}

}  // namespace

ModelEntries entries_of(std::string_view body) {
  ModelEntries entries;
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  if (parser.allocate(body.size(), deepest)) return entries;
  if (parse_page(parser, body)["data"].get(list)) return entries;
  for (const auto entry : list) {
    const auto id = id_of(entry);
    if (!id.empty()) entries.push_back({std::string(id), simdjson::minify(entry)});
  }
  return entries;
}

balancer::ModelList ids_of(const ModelEntries& entries) {
  if (entries.empty()) return nullptr;
  auto ids = std::make_shared<std::vector<balancer::ModelId>>();
  for (const auto& entry : entries) ids->push_back(balancer::model_id(entry.id));
  std::ranges::sort(*ids);
  return ids;
}

void ServedModels::add_pool(const std::vector<std::string>& named,
                            std::span<const std::shared_ptr<const ModelEntries>> replicas) {
  const auto told = [&](std::string_view id) {
    for (const auto& entries : replicas)
      for (const auto& entry : *entries)
        if (entry.id == id) return &entry;
    return static_cast<const ModelEntry*>(nullptr);
  };
  for (const auto& id : named) {
    const auto* entry = told(id);
    add(entry != nullptr ? *entry : entry_named(id));
  }
  if (!named.empty()) return;
  for (const auto& entries : replicas)
    for (const auto& entry : *entries) add(entry);
}

void ServedModels::add(const ModelEntry& entry) {
  if (places_.try_emplace(entry.id, entries_.size()).second) entries_.push_back(entry);
}

ServedModels ServedModels::only(const std::vector<std::string>& ids) const {
  ServedModels some;
  for (const auto& entry : entries_)
    if (std::ranges::find(ids, entry.id) != ids.end()) some.add(entry);
  return some;
}

const std::string* ServedModels::find(std::string_view id) const {
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : &entries_[found->second].json;
}

std::string ServedModels::text() const {
  metrics::wire::JsonWriter json;
  json.open('{').key("object").text("list").key("data").open('[');
  for (const auto& entry : entries_) json.raw(entry.json);
  return json.close(']').close('}').written() + "\n";
}

}  // namespace weir::proxy::fleet
