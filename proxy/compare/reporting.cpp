#include "proxy/compare/reporting.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "config/values.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/samples/log_reading.hpp"
#include "metrics/compare/sides/side_choice.hpp"

namespace weir::proxy::compare {
namespace {

namespace mc = metrics::compare;

/// Returns what is known of a replica by its name or its configuration.
template <class Value>
std::optional<Value> known_of(const std::map<std::string, Value, std::less<>>& known, std::string_view replica,
                              std::string_view config) {
  for (const auto name : {replica, config}) {
    if (const auto found = known.find(name); found != known.end()) return found->second;
  }
  return std::nullopt;
}

using mc::samples::format_rfc3339;

/// "requests from 2026-11-21T07:00:00Z to 2026-11-21T07:30:00Z (30 min)"
std::string extent(const ReadSamples& read) {
  return "requests " + mc::comparison::stretch({read.first_us, read.last_us}) + " (" +
         mc::comparison::length_text(static_cast<double>(read.last_us - read.first_us) * 1e-6) + ')';
}

/// The time that was asked for, as far as it is.
struct Asked {
  std::optional<std::int64_t> from_us, to_us;
};

Asked asked_of(const Request& request, std::int64_t last_us) {
  Asked asked;
  if (request.from) asked.from_us = request.from->of(last_us);
  if (asked.from_us && request.length_us) asked.to_us = *asked.from_us + *request.length_us;
  if (request.to) asked.to_us = request.to->of(last_us);
  return asked;
}

/// Returns a sentence if no request was in the time that was asked for.
std::optional<std::string> outside(const ReadSamples& read, const Request& request) {
  if (read.requests == 0) return std::nullopt;
  const Asked asked = asked_of(request, read.last_us);
  const auto sentence = [&](const char* which, std::int64_t us, const char* side) {
    return "No request is in the time that was asked for, which " + std::string(which) + ' ' + format_rfc3339(us) +
           ": there are " + extent(read) + ". Choose --from and --to " + side + '.';
  };
  if (asked.from_us && *asked.from_us > read.last_us) return sentence("begins at", *asked.from_us, "before its end");
  if (asked.to_us && *asked.to_us <= read.first_us) return sentence("ends at", *asked.to_us, "after its beginning");
  if (asked.from_us && asked.to_us && *asked.to_us <= *asked.from_us)
    return "--from " + format_rfc3339(*asked.from_us) + " is not before --to " + format_rfc3339(*asked.to_us) +
           ": there are " + extent(read) + '.';
  return std::nullopt;
}

/// Says what of the time that was asked for has no requests: more than a hundredth of it.
std::optional<mc::comparison::Note> beyond_requests(const ReadSamples& read, const Request& request,
                                                    const mc::comparison::Comparison& comparison) {
  const Asked asked = asked_of(request, read.last_us);
  const auto slack_us = static_cast<std::int64_t>(comparison.window.seconds() * 1e4);
  const bool early = asked.from_us && *asked.from_us < read.first_us - slack_us;
  const bool late = comparison.declared && comparison.window.to_us > read.last_us + slack_us &&
                    comparison.state != mc::comparison::State::final;
  if (!early && !late) return std::nullopt;
  std::string text = "Beyond the requests: there are " + extent(read);
  if (early)
    text += ", and the window was to begin at " + format_rfc3339(*asked.from_us) + "; the first request begins it";
  if (late)
    text += ", and the window was to end at " + format_rfc3339(comparison.window.to_us) + ", so it has not ended";
  return mc::comparison::Note{"beyond_requests", text + '.'};
}

/// Says which logs have nothing in common.
std::optional<mc::comparison::Note> unrelated_logs(const ReadSamples& read, const mc::sides::SideChoice& sides,
                                                   const mc::comparison::Comparison& comparison) {
  std::set<std::size_t> of_a, of_b;
  for (const auto& log : read.logs) {
    if (log.has(sides.a)) of_a.insert(log.run);
    if (log.has(sides.b)) of_b.insert(log.run);
  }
  std::set<std::size_t> all = of_a;
  all.insert(of_b.begin(), of_b.end());
  const bool one_each = of_a.size() == 1 && of_b.size() == 1;
  // Sides that did not run at the same time have a note of their own.
  if (all.size() < 2 || (one_each && comparison.apart)) return std::nullopt;
  std::string list;
  constexpr std::size_t most_named = 5;
  std::size_t named = 0;
  for (const auto run : all) {
    if (++named > most_named) break;
    const auto log = std::ranges::find(read.logs, run, &ReadLog::run);
    list += (list.empty() ? "" : ", ") + config::one_line(log->path) + " (" +
            mc::comparison::stretch({log->first_us, log->last_us}) + ')';
  }
  if (all.size() > most_named) list += ", and others";
  std::string text = "Unrelated logs: " + list + " share no request and no pair, and none goes on where another ends. ";
  text += one_each ? comparison.a + " is in one of them and " + comparison.b +
                         " in the other, so nothing shows that both had the same load."
                   : "Their requests are taken together. If they are of different runs, compare each by itself.";
  return mc::comparison::Note{"unrelated_logs", text};
}

/// Makes the report on two sides that are chosen.
mc::report::Report report_of_sides(const ReadSamples& read, const mc::samples::Names& names, const Request& request,
                                   double margin, const Noise& noise, const mc::sides::SideChoice& sides) {
  mc::report::ReportOptions options;
  options.by = request.by;
  options.all_sides = request.all_sides;
  options.comparison = options_of(request, margin);
  options.comparison.histories = noise.histories;
  options.comparison.tables = noise.tables;
  options.comparison.lost = noise.lost;
  options.comparison.a = sides.a;
  options.comparison.b = sides.b;
  options.comparison.length_us = request.length_us;
  if (request.from) options.comparison.from_us = request.from->of(read.last_us);
  if (request.to) options.comparison.to_us = request.to->of(read.last_us);
  options.comparison.warm_up.mirrored = &read.mirrored;
  options.comparison.warm_up.kv_tokens = kv_tokens_of(request.kv_tokens, names);
  options.cost_per_hour = [&](std::string_view replica, std::string_view config) {
    return known_of(request.costs, replica, config);
  };
  auto report = mc::report::make_report(read.samples, names, options);
  for (auto note :
       {beyond_requests(read, request, report.comparison), unrelated_logs(read, sides, report.comparison)}) {
    if (note) report.notes.push_back(*std::move(note));
  }
  return report;
}

}  // namespace

Filter filter_of(const Request& request, const std::string& model) {
  Filter filter;
  filter.pool = request.pool;
  filter.model = model;
  filter.prompt_tokens = request.prompt_tokens;
  if (request.from && !request.from->before_last) filter.from_us = request.from->us;
  if (request.to && !request.to->before_last) filter.to_us = request.to->us;
  return filter;
}

mc::comparison::Options options_of(const Request& request, double margin) {
  mc::comparison::Options options;
  options.slo = request.slo;
  options.margin = margin;
  options.margins = request.margins;
  options.warm_up.seconds = request.warm_up_s;
  return options;
}

mc::pairs::KvTokens kv_tokens_of(std::map<std::string, std::uint64_t, std::less<>> known,
                                 const mc::samples::Names& names) {
  return [known = std::move(known), &names](auto replica, auto config) {
    return known_of(known, names.text(replica), names.text(config));
  };
}

std::variant<mc::report::Report, std::string> report_on(const ReadSamples& read, const mc::samples::Names& names,
                                                        const Request& request, double margin, const Noise& noise,
                                                        const std::string& a, const std::string& b) {
  if (auto sentence = outside(read, request)) return *std::move(sentence);
  if (read.samples.empty() && read.requests > 0)
    return "None of the " + std::to_string(read.requests) +
           " requests is of the pool, the model, the prompt_tokens and the time that were asked for";
  const auto chosen = mc::sides::choose_sides(read.samples, names, request.by, a, b);
  if (const auto* sentence = std::get_if<std::string>(&chosen)) return *sentence;
  return report_of_sides(read, names, request, margin, noise, std::get<mc::sides::SideChoice>(chosen));
}

std::optional<std::variant<mc::report::CandidatesReport, std::string>> candidates_report_on(
    const ReadSamples& read, const mc::samples::Names& names, const Request& request, double margin, const Noise& noise,
    const std::string& a) {
  const auto candidates = mc::sides::choose_candidates(read.samples, names, request.by, a);
  if (candidates.empty()) return std::nullopt;
  if (auto sentence = outside(read, request)) return *std::move(sentence);
  std::vector<mc::report::Report> reports;
  reports.reserve(candidates.size());
  for (const auto& sides : candidates) reports.push_back(report_of_sides(read, names, request, margin, noise, sides));
  return mc::report::together(std::move(reports));
}

}  // namespace weir::proxy::compare
