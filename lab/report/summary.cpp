#include "lab/report/summary.hpp"

#include <algorithm>
#include <set>

#include "lab/json_fields.hpp"
#include "lab/text.hpp"
#include "metrics/compare/samples/rfc3339.hpp"
#include "metrics/compare/statistics/distribution.hpp"
#include "metrics/record/gap_sketch.hpp"

namespace weir::lab::report {

using load::Distribution;

namespace {

/// The gaps are ITL only if every event was one token, which is not so if the engine told that some held several.
void read_gaps(const JsonObject& line, LogRow& row) {
  const std::string_view source = text_at(line, "k_source");
  const auto bins = field<JsonArray>(line, "gap_bins");
  if ((source != "settled" && source != "wire") || !bins) return;
  std::uint64_t gaps = 0;
  for (const JsonValue bin : *bins) {
    JsonArray pair;
    std::int64_t number = 0, count = 0;
    if (bin.get(pair) != simdjson::SUCCESS || pair.size() != 2) continue;
    if (pair.at(0).get(number) != simdjson::SUCCESS || pair.at(1).get(count) != simdjson::SUCCESS) continue;
    row.gaps.emplace_back(static_cast<std::uint16_t>(number), static_cast<std::uint64_t>(count));
    gaps += row.gaps.back().second;
  }
  // The first of n tokens ends no gap, nor does an end of sequence that is an empty event.
  if (source == "wire" && row.output_tokens > gaps + 2) row.gaps.clear();
}

std::string ms(const std::optional<Distribution>& d, double Distribution::*figure) {
  return d ? format("%8.1f", 1e3 * ((*d).*figure)) : format("%8s", "-");
}

std::string p50_p95(const std::optional<Distribution>& d) {
  return ms(d, &Distribution::p50) + ms(d, &Distribution::p95);
}

void print_head(std::ostream& out, int width, std::string_view name) {
  out << format("%-*s %7s %7s %7s  %16s %16s %16s %9s\n", width, "", "", "", "", "TTFT ms  ", "ITL ms  ", "TPOT ms  ",
                "output");
  out << format("%-*.*s %7s %7s %7s  %8s%8s %8s%8s %8s%8s %9s\n", width, static_cast<int>(name.size()), name.data(),
                "ok", "failed", "aborted", "p50", "p95", "p50", "p95", "p50", "p95", "tokens/s");
}

void print_group(std::ostream& out, int width, const std::string& name, const LogGroup& group, double elapsed) {
  out << format("%-*s %7llu %7llu %7llu  ", width, name.c_str(), static_cast<unsigned long long>(group.ok),
                static_cast<unsigned long long>(group.failed), static_cast<unsigned long long>(group.aborted))
      << p50_p95(load::distribution(group.ttft)) << ' ' << p50_p95(group.itl()) << ' '
      << p50_p95(load::distribution(group.tpot))
      << (elapsed > 0 ? format(" %9.1f", static_cast<double>(group.output_tokens) / elapsed) : format(" %9s", "-"))
      << '\n';
}

}  // namespace

std::optional<LogRow> read_log_line(std::string_view text, bool& readable) {
  const auto line = object_of(text);
  const auto begin = line ? metrics::compare::samples::parse_rfc3339(text_at(*line, "time")) : std::nullopt;
  readable = begin.has_value();
  if (!readable || text_at(*line, "role") != "primary") return std::nullopt;
  LogRow row;
  row.begin = 1e-6 * static_cast<double>(*begin);
  row.replica = config::printable(text_at(*line, "replica"));
  row.config = config::printable(text_at(*line, "config"));
  row.outcome = text_at(*line, "outcome");
  row.ttft = number_of(*line, "ttft_s");
  row.ttft_client = number_of(*line, "ttft_client_s");
  row.tpot = number_of(*line, "tpot_s");
  row.e2e = number_of(*line, "e2e_s");
  row.prompt_tokens = count_of(*line, "prompt_tokens");
  row.output_tokens = count_of(*line, "output_tokens");
  read_gaps(*line, row);
  return row;
}

void LogGroup::add(const LogRow& row) {
  prompt_tokens += row.prompt_tokens;
  output_tokens += row.output_tokens;
  if (row.outcome == "client_abort") {
    ++aborted;
    return;
  }
  if (row.outcome != "ok" && row.outcome != "ok_empty") {
    ++failed;
    return;
  }
  ++ok;
  const auto keep = [](std::vector<float>& values, const std::optional<double>& v) {
    if (v) values.push_back(static_cast<float>(*v));
  };
  keep(ttft, row.ttft);
  keep(ttft_client, row.ttft_client);
  keep(tpot, row.tpot);
  for (const auto& [bin, count] : row.gaps) gaps[bin] += count;
}

std::optional<Distribution> LogGroup::itl() const {
  Distribution d;
  double sum = 0;
  for (const auto& [bin, count] : gaps) {
    d.count += count;
    d.max = metrics::seconds(metrics::record::GapSketch::middle_of(bin));
    sum += d.max * static_cast<double>(count);
  }
  if (d.count == 0) return std::nullopt;
  d.mean = sum / static_cast<double>(d.count);
  d.take([&](double q) { return metrics::compare::statistics::quantile_of_gaps(gaps, q); });
  return d;
}

LogSummary read_log(std::istream& in) {
  LogSummary summary;
  bool any = false;
  std::string text;
  while (std::getline(in, text)) {
    const bool unfinished = in.eof();  // Without a newline at its end the line is unfinished: weir is writing it.
    if (text.empty()) continue;
    bool readable = false;
    const auto row = read_log_line(text, readable);
    if (!readable && !unfinished) ++summary.unreadable;
    if (!row) continue;
    const double end = row->begin + row->e2e.value_or(0);
    summary.begin = any ? std::min(summary.begin, row->begin) : row->begin;
    summary.end = any ? std::max(summary.end, end) : end;
    any = true;
    summary.all.add(*row);
    summary.replicas[{row->config, row->replica}].add(*row);
    summary.configs[row->config].add(*row);
  }
  return summary;
}

void print_summary(std::ostream& out, const LogSummary& summary) {
  const double elapsed = summary.elapsed();
  const auto shown = [](const std::string& name) { return name.empty() ? std::string("(none)") : name; };
  std::size_t longest = 14;
  for (const auto& [key, group] : summary.replicas) {
    longest = std::max(longest, shown(key.second).size() + shown(key.first).size() + 3);
  }
  const int width = static_cast<int>(std::min<std::size_t>(longest, 60));

  print_head(out, width, "replica");
  for (const auto& [key, group] : summary.replicas) {
    print_group(out, width, shown(key.second) + " (" + shown(key.first) + ")", group, elapsed);
  }
  out << '\n';
  print_head(out, width, "configuration");
  for (const auto& [config, group] : summary.configs) print_group(out, width, shown(config), group, elapsed);
  print_group(out, width, "all", summary.all, elapsed);
  if (elapsed > 0) {
    out << format("\n%.1f s, %.1f requests a minute, %.1f tokens/s with prompts\n", elapsed,
                  60.0 * static_cast<double>(summary.all.ok) / elapsed,
                  static_cast<double>(summary.all.prompt_tokens + summary.all.output_tokens) / elapsed);
  }
  if (summary.unreadable > 0) {
    out << format("%llu lines could not be read and are left out\n",
                  static_cast<unsigned long long>(summary.unreadable));
  }
}

}  // namespace weir::lab::report
