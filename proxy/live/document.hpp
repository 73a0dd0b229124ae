// The document of /api/live, in parts, so that the stream can send what has changed. docs/api.md defines it.
#pragma once

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
#include "proxy/live/window.hpp"

namespace weir::proxy::live {

/// A JSON object whose members are values, or objects of rows.
class Document {
 public:
  struct Row {
    std::string name, json;
    bool operator==(const Row&) const = default;
  };
  struct Section {
    std::string name;
    bool has_rows = true;  ///< Or else it has one row, which is the value.
    bool loses = false;    ///< Members within a row come and go, such as the counts by outcome.
    std::vector<Row> rows;
  };

  void value(std::string_view name, std::string json, bool loses = false) {
    sections_.push_back({std::string(name), false, loses, {{"", std::move(json)}}});
  }
  Section& rows(std::string_view name, bool loses = false) {
    return sections_.emplace_back(Section{std::string(name), true, loses, {}});
  }

  /// Returns the whole, on one line.
  std::string json() const;
  /// Returns the merge patch (RFC 7396) that makes this document of `before`: values and rows that differ, and null for
  /// rows, and for members within a row, that are gone. Both have the same sections.
  std::string patch_of(const Document& before) const;

 private:
  std::vector<Section> sections_;
};

inline constexpr int schema = 1;

/// `window` may be null: none is kept. `slowest` and `failed` are requests as they stand.
Document document_of(const Now& now, const Window* window, const std::vector<RequestRow>& slowest,
                     const std::deque<RequestRow>& failed, const std::vector<Finding>& findings,
                     const std::vector<events::Event>& latest);

/// {"schema","started","first","last","missed","events":[...]}
std::string events_json(const events::Ring::Since& since, Wall started);

/// Appends a moment as JSON: "2026-11-21T07:00:00.123Z".
void write_time(metrics::wire::JsonWriter& json, Wall time);

}  // namespace weir::proxy::live
