#include "lab/report/observers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "lab/text.hpp"

namespace weir::lab::report {

using load::Distribution;

namespace {

std::optional<Distribution> distribution_of(const JsonObject& report, std::string_view key) {
  const auto object = field<JsonObject>(report, key);
  if (!object) return std::nullopt;
  const auto figure = [&](std::string_view name) { return number_of(*object, name).value_or(0); };
  return Distribution{
      count_of(*object, "count"), figure("mean"), figure("p50"), figure("p90"), figure("p95"), figure("max"),
      number_of(*object, "p99")};
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
  return format("%s %s ms (%.2f with it, %.2f without)", name, with_sign(1e3 * (through->p50 - direct->p50), 2).c_str(),
                1e3 * through->p50, 1e3 * direct->p50);
}

/// Prints "p99 against round_robin: least_requests -31 %, least_queued_tokens -52 %."
void print_tails(std::ostream& out, const std::vector<Observed>& runs) {
  std::size_t fewest = runs.front().ttft ? runs.front().ttft->count : 0;
  for (const Observed& run : runs) fewest = std::min(fewest, run.ttft ? run.ttft->count : 0);
  if (runs.size() < 2 || fewest == 0) return;
  const bool p99 = std::ranges::all_of(runs, [](const Observed& run) { return run.ttft->p99.has_value(); });
  const auto tail = [p99](const Observed& run) { return p99 ? *run.ttft->p99 : run.ttft->p95; };
  out << (p99 ? "p99" : "p95") << " against " << runs.front().who << ":";
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const double change = 100 * (tail(runs[i]) / tail(runs.front()) - 1);
    out << (i > 1 ? ", " : " ") << runs[i].who << ' ' << with_sign(change, 0) << " %";
  }
  const auto slowest = static_cast<unsigned long long>(std::ceil(static_cast<double>(fewest) * (p99 ? 0.01 : 0.05)));
  out << format(". One run; behind each %s stand the %llu slowest of %zu requests.\n", p99 ? "p99" : "p95", slowest,
                fewest);
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
    if (!line || text_at(*line, "status") != "finished" || !flag_at(*line, "stream")) continue;
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
    if (!line || text_at(*line, "outcome") != "ok") continue;
    if (const auto ttft = number_of(*line, "ttft_client_s")) add(*ttft, number_of(*line, "tpot_s"));
  }
}

Observed StreamTimes::observed(std::string who) const {
  return {std::move(who), requests_, load::distribution(ttft_), std::nullopt, load::distribution(tpot_)};
}

Observed observed(std::string who, const JsonObject& report) {
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

void print_reports(std::ostream& out, const std::vector<Observed>& runs) {
  int width = 8;
  for (const Observed& run : runs) width = std::max(width, static_cast<int>(run.who.size()));
  out << format("%-*s %9s %9s %9s %9s %9s %9s\n", width, "TTFT ms", "requests", "mean", "p50", "p95", "p99", "max");
  for (const Observed& run : runs) {
    out << format("%-*s %9llu", width, run.who.c_str(), static_cast<unsigned long long>(run.requests));
    if (!run.ttft) {
      out << format(" %9s %9s %9s %9s %9s\n", "-", "-", "-", "-", "-");
      continue;
    }
    out << format(" %9.1f %9.1f %9.1f", 1e3 * run.ttft->mean, 1e3 * run.ttft->p50, 1e3 * run.ttft->p95)
        << (run.ttft->p99 ? format(" %9.1f", 1e3 * *run.ttft->p99) : format(" %9s", "-"))
        << format(" %9.1f\n", 1e3 * run.ttft->max);
  }
  if (!runs.empty()) print_tails(out, runs);
}

}  // namespace weir::lab::report
