// The document of /api/live in parts, and the rows of slowest and failed requests.
//
// It has parts so that the stream can send what has changed. docs/reference/api.md defines it.
//
// Changed rows are sent whole. Patches of single members would need a tree for each document and save little: under
// load most figures of a row change each second, and at rest none does.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"
#include "proxy/live/findings.hpp"
#include "proxy/live/now.hpp"

namespace weir::proxy::live {

/// An attempt of several at a request, in seconds since the request's last byte came.
struct TriedRow {
  std::string replica;
  double from = 0, to = 0;
  std::optional<unsigned> status{};
  std::optional<metrics::Retry> why{};
};

/// A finished request, with the phases of its time in seconds.
struct RequestRow {
  Wall time{};
  std::string id, client_id, key, pool, replica, model;
  metrics::Api api = metrics::Api::other;
  bool stream = false;
  metrics::Outcome outcome = metrics::Outcome::ok;
  std::optional<unsigned> status{};
  std::optional<metrics::Phase> phase{};
  std::uint32_t attempts = 0;
  std::vector<TriedRow> tried{};  ///< Empty where there was one attempt.
  double wait = 0, connect = 0;
  std::optional<double> earlier{}, prefill{}, decode{}, total{}, ttft_client{}, tpot{};
  std::optional<std::uint64_t> prompt_tokens{}, cached_tokens{}, output_tokens{};
};

/// The outcomes that count as a failure of the pool.
bool has_failed(metrics::Outcome outcome);

class Requests {
 public:
  static constexpr std::size_t most = 20;
  static constexpr std::size_t minutes = 15;

  /// Takes a client's request that has ended.
  void add(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures, Moment now);

  /// Returns the slowest streams by ttft_client, and then the slowest others by their time, of the last `minutes`.
  std::vector<RequestRow> slowest(Moment now) const;
  /// The latest is in front.
  const std::deque<RequestRow>& failed() const { return failed_; }

 private:
  struct Scored {
    double score;
    RequestRow row;
  };
  /// The requests of one minute, streams and others. The slowest are in front.
  struct OfMinute {
    std::int64_t minute = -1;
    std::array<std::vector<Scored>, 2> slowest;
  };
  static std::int64_t minute_of(Moment now) {
    return std::chrono::duration_cast<std::chrono::minutes>(now.time_since_epoch()).count();
  }

  std::array<OfMinute, minutes + 1> by_minute_;  ///< The minute under way, and the whole ones before it.
  std::deque<RequestRow> failed_;
};

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
