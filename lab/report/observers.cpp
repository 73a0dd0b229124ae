#include "lab/report/observers.hpp"

#include <cmath>
#include <limits>
#include <map>

#include "lab/json_fields.hpp"
#include "lab/text.hpp"

namespace weir::lab::report {

namespace json = boost::json;
using load::Distribution;

namespace {

std::optional<Distribution> distribution_of(const json::object& report, std::string_view key) {
  const json::value* v = report.if_contains(key);
  const json::object* object = v ? v->if_object() : nullptr;
  if (!object) return std::nullopt;
  Distribution d;
  d.count = count_of(*object, "count");
  d.mean = number_of(*object, "mean").value_or(0);
  d.p50 = number_of(*object, "p50").value_or(0);
  d.p90 = number_of(*object, "p90").value_or(0);
  d.p95 = number_of(*object, "p95").value_or(0);
  d.p99 = number_of(*object, "p99");
  d.max = number_of(*object, "max").value_or(0);
  return d;
}

std::string mean_p50_p95(const std::optional<Distribution>& d) {
  if (!d) return format("%8s%8s%8s", "-", "-", "-");
  return format("%8.2f%8.2f%8.2f", 1e3 * d->mean, 1e3 * d->p50, 1e3 * d->p95);
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return format("%.0f us", seconds * 1e6);
  return format("%.3g ms", seconds * 1e3);
}

std::string added(const char* name, const std::optional<Distribution>& through,
                  const std::optional<Distribution>& direct) {
  if (!through || !direct) return format("%s unknown", name);
  const double difference = std::round(1e5 * (through->p50 - direct->p50)) / 1e2 + 0.0;  // Adding 0.0 avoids "-0.00".
  return format("%s %+.2f ms (%.2f with it, %.2f without)", name, difference, 1e3 * through->p50, 1e3 * direct->p50);
}

}  // namespace

void StreamTimes::add(double ttft, const std::optional<double>& tpot) {
  ++requests_;
  ttft_.push_back(static_cast<float>(ttft));
  if (tpot) tpot_.push_back(static_cast<float>(*tpot));
}

void StreamTimes::read_truth(std::istream& in) {
  std::string text;
  while (std::getline(in, text)) {
    const auto line = object_of(text);
    if (!line || text_of(*line, "status") != "finished") continue;
    const json::value* stream = line->if_contains("stream");
    if (!stream || !stream->is_bool() || !stream->get_bool()) continue;
    const auto received = number_of(*line, "received_ns");
    const auto first = number_of(*line, "first_token_ns"), last = number_of(*line, "last_token_ns");
    if (!received || !first || !last) continue;
    const std::uint64_t tokens = count_of(*line, "output_tokens");
    std::optional<double> tpot;
    if (tokens > 1 && *last > *first) tpot = (*last - *first) / 1e9 / static_cast<double>(tokens - 1);
    add((*first - *received) / 1e9, tpot);
  }
}

void StreamTimes::read_load(std::istream& in) {
  std::string text;
  while (std::getline(in, text)) {
    const auto line = object_of(text);
    if (!line || text_of(*line, "outcome") != "ok") continue;
    if (const auto ttft = number_of(*line, "ttft_client_s")) add(*ttft, number_of(*line, "tpot_s"));
  }
}

Observed StreamTimes::observed(std::string who) const {
  return {std::move(who), requests_, load::distribution(ttft_), std::nullopt, load::distribution(tpot_)};
}

Observed observed(std::string who, const json::object& report) {
  return {std::move(who), count_of(report, "requests_ok"), distribution_of(report, "ttft_s"),
          distribution_of(report, "itl_s"), distribution_of(report, "tpot_s")};
}

std::optional<Overhead> overhead(const MetricsText& page) {
  const double count = page.sum("weir_token_overhead_seconds_count");
  if (count <= 0) return std::nullopt;
  std::map<double, double> below;
  for (const auto& [le, n] : page.by_label("weir_token_overhead_seconds_bucket", "le")) {
    if (le != "+Inf") below[std::strtod(le.c_str(), nullptr)] = n;
  }
  const auto within = [&](double share) -> std::optional<double> {
    for (const auto& [bound, n] : below) {
      if (n >= share * count) return bound;
    }
    return std::nullopt;
  };
  return Overhead{static_cast<std::uint64_t>(count), page.sum("weir_token_overhead_seconds_sum") / count, within(0.5),
                  within(0.99)};
}

void print_observers(std::ostream& out, const std::vector<Observed>& rows) {
  out << format("%-24s %8s  %24s %24s %24s\n", "", "", "TTFT ms      ", "TPOT ms      ", "ITL ms       ");
  out << format("%-24s %8s  %8s%8s%8s %8s%8s%8s %8s%8s%8s\n", "measured by", "requests", "mean", "p50", "p95", "mean",
                "p50", "p95", "mean", "p50", "p95");
  for (const Observed& row : rows) {
    out << format("%-24s %8llu  ", row.who.c_str(), static_cast<unsigned long long>(row.requests))
        << mean_p50_p95(row.ttft) << ' ' << mean_p50_p95(row.tpot) << ' ' << mean_p50_p95(row.itl) << '\n';
  }
}

void print_added(std::ostream& out, const Observed& through, const Observed& direct) {
  out << "Added by weir, by the medians: " << added("TTFT", through.ttft, direct.ttft) << ",\n"
      << format("%31s", "") << added("TPOT", through.tpot, direct.tpot) << ".\n";
}

void print_overhead(std::ostream& out, const Overhead& o) {
  const auto at_most = [](const std::optional<double>& bound) {
    return bound ? "at most " + duration(*bound) : std::string("more than the last bucket's bound");
  };
  out << "By weir's own account (weir_token_overhead_seconds): " << counted(o.events, "token event") << " held "
      << duration(o.mean) << " on average,\n"
      << format("%31s", "") << "half of them " << at_most(o.half_within) << ", 99 % " << at_most(o.most_within)
      << ".\n";
}

}  // namespace weir::lab::report
