#include "proxy/admin/live_api.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "metrics/wire/json/writer.hpp"
#include "proxy/admin/api.hpp"

namespace weir::proxy::admin {
namespace {

using live::Figures;
using live::Rows;

std::optional<std::uint64_t> whole(const std::string& text) {
  std::uint64_t number = 0;
  const auto* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end && !text.empty() ? std::optional(number) : std::nullopt;
}

/// Returns a refusal of any parameter; nothing if there is none.
std::optional<ApiAnswer> refuse_parameters(std::string_view query) {
  if (query.empty()) return std::nullopt;
  return bad_query("this path takes no parameters; GET /api/live/window has the last seconds");
}

/// A question to the window.
struct WindowAsked {
  std::size_t seconds = usual_window_seconds;
  std::size_t step = 1;              ///< A number is the mean of so many seconds.
  std::vector<std::string> figures;  ///< Empty means all.
  std::optional<std::pair<Rows, std::string>> only;

  bool wants(Rows rows, std::string_view figure) const {
    return std::ranges::any_of(Figures::drawn(rows), [&](auto one) { return one == figure; }) &&
           (figures.empty() || std::ranges::find(figures, figure) != figures.end());
  }
};

constexpr std::array<std::pair<std::string_view, Rows>, 3> selectors{
    {{"pool", Rows::pools}, {"replica", Rows::replicas}, {"shadow", Rows::shadows}}};
constexpr std::array all_rows{Rows::weir, Rows::pools, Rows::replicas, Rows::shadows};

bool is_figure(std::string_view name) {
  return std::ranges::any_of(all_rows, [&](Rows rows) { return Figures::number_of(rows, name).has_value(); });
}

/// Returns why the figures cannot be; nothing if they can.
std::optional<std::string> take_figures(const std::string& value, WindowAsked& asked) {
  for (std::size_t from = 0; from <= value.size();) {
    const auto comma = std::min(value.find(',', from), value.size());
    auto name = value.substr(from, comma - from);
    from = comma + 1;
    if (!is_figure(name)) {
      std::string known;
      for (const auto rows : all_rows)
        for (const auto figure : Figures::drawn(rows))
          if (known.find(figure) == known.npos) known.append(known.empty() ? "" : ", ").append(figure);
      return std::string("no figure is named '").append(name).append("'; known are ").append(known);
    }
    asked.figures.push_back(std::move(name));
  }
  return std::nullopt;
}

/// Returns what is asked, or a sentence that says why it cannot be.
std::optional<std::string> take(std::string_view query, WindowAsked& asked) {
  const auto parameters = parameters_of(query);
  if (!parameters) return std::string(not_a_query);
  for (const auto& [name, value] : *parameters) {
    if (name == "seconds") {
      const auto seconds = whole(value);
      if (!seconds || *seconds < 1 || *seconds > live::Seconds::window)
        return "seconds must be a whole number from 1 to " + std::to_string(live::Seconds::window);
      asked.seconds = *seconds;
    } else if (name == "figures") {
      if (auto why_not = take_figures(value, asked)) return why_not;
    } else if (const auto* const found = std::ranges::find(selectors, name, &decltype(selectors)::value_type::first);
               found != selectors.end()) {
      if (asked.only) return std::string("name one pool, one replica or one shadow");
      asked.only.emplace(found->second, value);
    } else {
      return unknown_parameter(name, {"seconds", "figures", "pool", "replica", "shadow"});
    }
  }
  return std::nullopt;
}

void write_row(metrics::wire::JsonWriter& json, const Figures& all, const WindowAsked& asked, Rows rows,
               const std::string& name) {
  const auto& row = *all.row(rows, name);
  json.open('{');
  const auto figures = Figures::drawn(rows);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (!asked.wants(rows, figures[i])) continue;
    json.key(figures[i]).open('[');
    const auto numbers = thinned(row.numbers(i, asked.seconds), asked.step);
    for (const float number : numbers) json.decimal(number);
    json.close(']');
  }
  json.close('}');
}

using NamesOfRows = std::vector<std::pair<Rows, std::vector<std::string>>>;

NamesOfRows names_of(const Figures& all, const WindowAsked& asked) {
  NamesOfRows shown;
  for (const auto rows : all_rows) {
    if (asked.only && asked.only->first != rows) continue;
    auto names = all.names(rows);
    if (asked.only) std::erase_if(names, [&](const auto& name) { return name != asked.only->second; });
    shown.emplace_back(rows, std::move(names));
  }
  return shown;
}

/// Returns how many numbers a figure's every second would be.
std::size_t numbers_of(const NamesOfRows& shown, const WindowAsked& asked) {
  std::size_t numbers = 0;
  for (const auto& [rows, names] : shown) {
    const auto wanted =
        std::ranges::count_if(Figures::drawn(rows), [&, of = rows](auto one) { return asked.wants(of, one); });
    numbers += asked.seconds * names.size() * static_cast<std::size_t>(wanted);
  }
  return numbers;
}

std::string window_json(const live::Live& live, const WindowAsked& asked, const NamesOfRows& shown) {
  metrics::wire::JsonWriter json(12 * numbers_of(shown, asked) / asked.step + 1024);
  json.open('{').key("schema").count(live::schema);
  live::write_time(json.key("end"), live.now().time);
  json.key("serial").count(live.serial()).key("step_s").count(asked.step);
  for (const auto& [rows, names] : shown) {
    json.key(live::rows_names[static_cast<std::size_t>(rows)]);
    if (rows == Rows::weir) {
      write_row(json, live.figures(), asked, rows, "");
      continue;
    }
    json.open('{');
    for (const auto& name : names) write_row(json.key(std::string_view(name)), live.figures(), asked, rows, name);
    json.close('}');
  }
  return json.close('}').written();
}

}  // namespace

ApiAnswer not_yet() {
  return api_error(503, "not_yet", "weir has just begun to take figures, and has none yet; ask again in a second");
}

ApiAnswer live_answer(std::string_view query, live::Live& live, metrics::Moment now) {
  if (auto refused = refuse_parameters(query)) return std::move(*refused);
  const auto document = live.document_of_now(now);
  if (!document) return not_yet();
  return {200, document->json() + "\n"};
}

ApiAnswer window_answer(std::string_view query, const live::Live& live) {
  WindowAsked asked;
  if (const auto why_not = take(query, asked)) return bad_query(*why_not);
  if (live.serial() == 0) return not_yet();
  const auto shown = names_of(live.figures(), asked);
  if (asked.only && shown.front().second.empty())
    return api_error(404, "unknown_name",
                     "the window has no row named '" + asked.only->second + "'; GET /api/live lists them");
  const auto numbers = numbers_of(shown, asked);
  if (numbers > most_window_numbers)
    return bad_query("that would be " + std::to_string(numbers) + " numbers, and an answer has at most " +
                     std::to_string(most_window_numbers) +
                     ": ask for fewer seconds, for some figures (figures=), or for one row (replica=, pool=, shadow=)");
  return {200, window_json(live, asked, shown) + "\n"};
}

std::string whole_window_json(const live::Live& live, std::size_t seconds) {
  WindowAsked asked;
  asked.seconds = seconds;
  const auto shown = names_of(live.figures(), asked);
  asked.step = std::max<std::size_t>(1, (numbers_of(shown, asked) + most_window_numbers - 1) / most_window_numbers);
  return window_json(live, asked, shown);
}

std::vector<float> thinned(std::vector<float> numbers, std::size_t step) {
  if (step <= 1) return numbers;
  std::vector<float> means;
  // The last mean is of the last seconds; the first one may be of fewer.
  for (std::size_t at = numbers.size() % step == 0 ? step : numbers.size() % step, from = 0; from < numbers.size();
       from = at, at += step) {
    float sum = 0;
    std::size_t known = 0;
    for (std::size_t i = from; i < at; ++i) {
      if (std::isnan(numbers[i])) continue;
      sum += numbers[i];
      ++known;
    }
    means.push_back(known > 0 ? sum / static_cast<float>(known) : std::numeric_limits<float>::quiet_NaN());
  }
  return means;
}

ApiAnswer events_answer(std::string_view query, const live::Live& live) {
  const auto parameters = parameters_of(query);
  if (!parameters) return bad_query(std::string(not_a_query));
  std::uint64_t since = 0, limit = events::Ring::most;
  for (const auto& [name, value] : *parameters) {
    auto* const into = name == "since" ? &since : name == "limit" ? &limit : nullptr;
    if (into == nullptr) return bad_query(unknown_parameter(name, {"since", "limit"}));
    const auto number = whole(value);
    if (!number) return bad_query(name + " must be a whole number, such as the seq of an event");
    *into = *number;
  }
  return {200, live::events_json(events::ring().since(since, limit), live.started()) + "\n"};
}

ApiAnswer stream_answer(std::string_view query, const live::Live& live) {
  if (auto refused = refuse_parameters(query)) return std::move(*refused);
  if (live.is_full())
    return api_error(503, "busy",
                     std::to_string(live::Live::most_streams) +
                         " streams are open, and no more may be; close one, or poll GET /api/live");
  return {200, "", std::string(event_stream)};
}

std::string LiveStream::next(metrics::Moment now) {
  auto document = live_.document();
  if (document == has_) {
    if (now - sent_at_ < still_here_every) return "";
    sent_at_ = now;
    return ": still here\n\n";
  }
  auto event = has_ ? "event: change\ndata: " + document->patch_of(*has_) : "event: live\ndata: " + document->json();
  has_ = std::move(document);
  sent_at_ = now;
  return event + "\n\n";
}

}  // namespace weir::proxy::admin
