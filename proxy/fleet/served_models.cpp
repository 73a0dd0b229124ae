#include "proxy/fleet/served_models.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace weir::proxy::fleet {
namespace {

std::string_view id_of(const boost::json::object& entry) {
  const auto* id = entry.if_contains("id");
  return id != nullptr && id->is_string() ? std::string_view(id->get_string().data(), id->get_string().size())
                                          : std::string_view();
}

/// Returns the entry of a model that the settings name and no replica has told of.
boost::json::object entry_named(const std::string& id) {
  return {{"id", id}, {"object", "model"}, {"owned_by", "weir"}};
}

}  // namespace

ModelEntries entries_of(std::string_view body) {
  ModelEntries entries;
  boost::system::error_code error;
  auto document = boost::json::parse({body.data(), body.size()}, error);
  auto* list = error || !document.is_object() ? nullptr : document.get_object().if_contains("data");
  if (list == nullptr || !list->is_array()) return entries;
  for (auto& entry : list->get_array())
    if (entry.is_object() && !id_of(entry.get_object()).empty()) entries.push_back(std::move(entry.get_object()));
  return entries;
}

void ServedModels::add_pool(const std::vector<std::string>& named,
                            std::span<const std::shared_ptr<const ModelEntries>> replicas) {
  const auto told = [&](std::string_view id) -> const boost::json::object* {
    for (const auto& entries : replicas)
      for (const auto& entry : *entries)
        if (id_of(entry) == id) return &entry;
    return nullptr;
  };
  for (const auto& id : named) {
    const auto* entry = told(id);
    add(entry != nullptr ? *entry : entry_named(id), id);
  }
  if (!named.empty()) return;
  for (const auto& entries : replicas)
    for (const auto& entry : *entries) add(entry, id_of(entry));
}

void ServedModels::add(boost::json::object entry, std::string_view id) {
  if (places_.try_emplace(std::string(id), entries_.size()).second) entries_.push_back(std::move(entry));
}

ServedModels ServedModels::only(const std::vector<std::string>& ids) const {
  ServedModels some;
  for (const auto& entry : entries_)
    if (const auto id = id_of(entry); std::ranges::find(ids, id) != ids.end()) some.add(entry, id);
  return some;
}

const boost::json::object* ServedModels::find(std::string_view id) const {
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : &entries_[found->second];
}

std::string ServedModels::text() const {
  std::string text = R"({"object":"list","data":[)";
  for (const auto& entry : entries_) {
    if (text.back() != '[') text += ',';
    text += boost::json::serialize(entry);
  }
  return text + "]}\n";
}

}  // namespace weir::proxy::fleet
