#include "metrics/wire/dialects/request_members.hpp"

#include <vector>

#include "metrics/wire/dialects/table.hpp"

namespace weir::metrics::wire {

namespace {

using Place = RequestPlace;

/// Every dialect has these members by these names.
constexpr RequestMember common[] = {
    {Place::root, "model", Place::model},
    {Place::root, "stream", Place::stream},
    {Place::part, "text", Place::text},
    {Place::part, "refusal", Place::text},
    {Place::part, "thinking", Place::text},
    {Place::message, "content", Place::content},
    {Place::message, "role", Place::role},
    {Place::message, "tool_calls", Place::text_tree},
};

RequestMembers members_of(const Dialect& dialect) {
  std::vector<RequestMember> all(dialect.request_members.begin(), dialect.request_members.end());
  all.insert(all.end(), std::begin(common), std::end(common));
  return RequestMembers(std::move(all));
}

std::vector<RequestMembers> by_api() {
  std::vector<RequestMembers> all;
  for (const Dialect* dialect : dialects::all) all.push_back(members_of(*dialect));
  return all;
}

}  // namespace

const RequestMembers& request_members(Api api) {
  static const std::vector<RequestMembers> all = by_api();
  return all[static_cast<std::size_t>(api)];
}

}  // namespace weir::metrics::wire
