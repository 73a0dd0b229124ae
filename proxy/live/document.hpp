// The document of /api/live, in parts, so that the stream can send what has changed. docs/reference/api.md defines it.
//
// Changed rows are sent whole. Patches of single members would need a tree for each document and save little: under
// load most figures of a row change each second, and at rest none does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"
#include "proxy/live/findings.hpp"
#include "proxy/live/now.hpp"
#include "proxy/live/requests.hpp"

namespace weir::proxy::live {

/// A JSON object whose members are values, or objects of rows.
class Document {
 public:
  struct Row {
    std::string name, json;
    bool operator==(const Row&) const = default;
  };
  /// The members of a row, at any depth: the same in each document, or not.
  enum class Members : std::uint8_t { fixed, vary };
  struct Section {
    std::string name;
    bool has_rows = true;  ///< Or else it has one row, which is the value.
    Members members = Members::fixed;
    std::vector<Row> rows{};
  };

  void value(std::string_view name, std::string json, Members members = Members::fixed) {
    sections_.push_back({std::string(name), false, members, {{"", std::move(json)}}});
  }
  Section& rows(std::string_view name, Members members = Members::fixed) {
    return sections_.emplace_back(Section{std::string(name), true, members});
  }

  /// Returns the whole, on one line.
  std::string json() const;
  /// Returns the merge patch (RFC 7396) that makes this document of `before`: values and rows that differ, whole, and
  /// null for rows, and members of a row, that are gone. Both have the same sections.
  std::string patch_of(const Document& before) const;

 private:
  std::vector<Section> sections_;
};

inline constexpr int schema = 1;

/// `slowest` and `failed` are requests as they stand.
Document document_of(const Now& now, const std::vector<RequestRow>& slowest, const std::deque<RequestRow>& failed,
                     const std::vector<Finding>& findings, const std::vector<events::Event>& latest);

/// {"schema","started","first","last","missed","events":[...]}
std::string events_json(const events::Ring::Since& since, Wall started);

/// Appends a moment as JSON: "2026-11-21T07:00:00.123Z".
void write_time(metrics::wire::JsonWriter& json, Wall time);

}  // namespace weir::proxy::live
