#include "lab/load/prefill/prefill_cost.hpp"

#include <algorithm>
#include <vector>

#include "lab/text.hpp"

namespace weir::lab::load::prefill {
namespace {

/// Returns the slope of y (seconds) over x, in milliseconds for `unit` of x.
std::optional<Slope> slope(const std::vector<double>& x, const std::vector<double>& y, double unit) {
  const auto line = metrics::compare::statistics::line_through(x, y);
  if (!line) return std::nullopt;
  Slope slope{line->slope, x.size()};
  const double scale = 1e3 * unit;
  slope.ms.value *= scale;
  if (auto& interval = slope.ms.interval) *interval = {interval->low * scale, interval->high * scale};
  return slope;
}

std::string with_interval(const Slope& slope, int digits) {
  std::string out = fmt::format("{:.{}f} ms", slope.ms.value, digits);
  if (slope.ms.interval)
    out += fmt::format(" ({:.{}f} to {:.{}f})", slope.ms.interval->low, digits, slope.ms.interval->high, digits);
  return out;
}

void write_members(metrics::wire::JsonWriter& json, const Slope& slope) {
  json.key("interval");
  const auto& interval = slope.ms.interval;
  interval ? json.open('[').exact(interval->low).exact(interval->high).close(']') : json.null();
  json.key("hidden").boolean(slope.hidden()).key("requests").count(slope.requests);
}

}  // namespace

std::optional<Point> point_of(const Result& result) {
  const metrics::record::Answer& answer = result.stream.answer;
  if (!result.ok() || !answer.first_token) return std::nullopt;
  const auto seconds = [](Moment from, Moment to) { return std::chrono::duration<double>(to - from).count(); };
  const std::uint64_t prompt = result.prompt_tokens();
  Point point;
  point.uncached_tokens = static_cast<double>(prompt - std::min(prompt, answer.cached_tokens.value_or(0)));
  point.ttft = seconds(result.started, *answer.first_token);
  point.more_tokens = static_cast<double>(std::max<std::uint64_t>(1, result.stream.output_tokens()) - 1);
  point.decode = seconds(*answer.first_token, *answer.last_choice);
  return point;
}

bool Slope::hidden() const {
  return !ms.interval || ms.interval->low <= 0 || ms.interval->high - ms.interval->low > ms.value;
}

std::optional<PrefillCost> cost_of(std::span<const Point> points) {
  std::vector<double> tokens, ttft, more, decode, short_tokens, short_ttft;
  for (const Point& point : points) {
    tokens.push_back(point.uncached_tokens);
    ttft.push_back(point.ttft);
    more.push_back(point.more_tokens);
    decode.push_back(point.decode);
    if (point.uncached_tokens >= short_prompt) continue;
    short_tokens.push_back(point.uncached_tokens);
    short_ttft.push_back(point.ttft);
  }
  const auto prefill = slope(tokens, ttft, 1000);
  if (!prefill) return std::nullopt;
  return PrefillCost{*prefill, slope(more, decode, 1), slope(short_tokens, short_ttft, 1000)};
}

void print(std::ostream& out, const std::optional<PrefillCost>& cost) {
  if (!cost) {
    out << "Prefill    unknown: it takes three answered requests, and prompts of more than one length\n";
    return;
  }
  const Slope& prefill = cost->per_1000_tokens;
  out << "Prefill    " << with_interval(prefill, 1)
      << fmt::format(" per 1000 uncached prompt tokens, by {} requests\n", prefill.requests);
  if (prefill.hidden()) {
    out << "           The noise of these TTFTs hides it: send more requests, or longer prompts, to an idle replica.\n";
  }
  if (const auto& decode = cost->per_output_token) {
    out << "Decode     " << with_interval(*decode, 2) << " per output token\n";
    if (!prefill.hidden() && !decode->hidden()) {
      out << fmt::format("           An output token takes as long as {:.0f} prompt tokens.\n",
                         1000 * decode->ms.value / prefill.ms.value);
    }
  }
  if (const auto& part = cost->short_prompts) {
    out << fmt::format("Below {:.0f}  ", short_prompt) << with_interval(*part, 1) << " per 1000 prompt tokens"
        << fmt::format(", by {} requests", part->requests)
        << (part->hidden() ? ": the noise hides what such prompts cost\n" : "\n");
  }
}

void write(metrics::wire::JsonWriter& json, const std::optional<PrefillCost>& cost) {
  if (!cost) return void(json.null());
  json.open('{').key("ms_per_1000_tokens").exact(cost->per_1000_tokens.ms.value);
  write_members(json, cost->per_1000_tokens);
  for (const auto& [key, slope] :
       {std::pair<std::string_view, const std::optional<Slope>&>("per_output_token", cost->per_output_token),
        {"below_800_tokens", cost->short_prompts}}) {
    json.key(key);
    if (!slope) {
      json.null();
      continue;
    }
    json.open('{').key("ms").exact(slope->ms.value);
    write_members(json, *slope);
    json.close('}');
  }
  json.close('}');
}

}  // namespace weir::lab::load::prefill
