// The rows and columns of `weir top`: what of /api/live is shown of a pool, a replica and a key, and which row comes
// first. Pure. proxy/live/page has the same order, and the same words for a filter.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/top/screen.hpp"
#include "proxy/top/state.hpp"

namespace weir::proxy::top {

using Json = simdjson::dom::element;

/// Members by a path such as "/ttft_s/p50". What is absent, null or of another type is unknown.
Number number_at(Json object, std::string_view path);
std::string text_at(Json object, std::string_view path);  ///< "" if unknown.
bool is_true_at(Json object, std::string_view path);

/// A row of a table; `data` lives as long as the document.
struct Row {
  std::string name;
  Json data;
  double bad = 0;         ///< The lower, the worse.
  Style state{};          ///< The colour of its state.
  bool is_found = false;  ///< A finding is about it.
  std::string below{};    ///< A line that stands below it: why a replica is not up; "" for none.
  Number lasts{};         ///< Its state has lasted for so many seconds.
};

/// A column's text for the member at its path.
enum class As : std::uint8_t {
  name,  ///< The row's name.
  text,
  state,    ///< With "!" where a finding is about the row.
  lasting,  ///< How long the state has lasted.
  count,
  of_limit,  ///< The member, "/", and the member at `second`.
  plus,      ///< The member, "+", and the member at `second`.
  words,     ///< The member, and the member at `second`, which are texts.
  time,
  share,  ///< In percent; "*" where `second` is "weir", and not the engine.
};

struct Column {
  std::string_view title;
  std::size_t width;
  int rank;  ///< Where room is scarce, columns of the highest rank go first.
  As as;
  std::string_view path{}, second{};
  bool descends = true;  ///< The largest is first.
};

bool is_text(const Column& column);
std::string text_of(const Column& column, const Row& row);

/// The first column is the name, which gets the room that the others leave.
std::span<const Column> columns_of(Section section);
/// Returns the rows of pools, replicas or keys that the filter leaves, in order.
std::vector<Row> rows_of(Json document, Section section, const State& state);
/// Returns the findings, the worst first, and among equals the latest.
std::vector<Json> sorted_findings(Json document);
/// Says whether a text has every word of the filter, in any case of letters. A word after "-" must be absent.
bool matches(std::string_view filter, std::string_view text);

}  // namespace weir::proxy::top
