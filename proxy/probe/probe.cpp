#include "proxy/probe/probe.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "config/address.hpp"
#include "config/controls.hpp"
#include "metrics/moment.hpp"
#include "metrics/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::proxy::probe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_at_once = 64;
constexpr std::chrono::milliseconds progress_every{500};

struct Place {
  const config::Pool* pool;
  const config::Replica* replica;
};

std::vector<Place> places_of(const config::Settings& settings) {
  std::vector<Place> places;
  for (const auto& pool : settings.pools)
    for (const auto& replica : pool.replicas) places.push_back({&pool, &replica});
  return places;
}

/// Threads put their reports in here as they finish, and the printing one takes them in order.
class Reports {
 public:
  explicit Reports(std::size_t n) : done_(n) {}

  void put(std::size_t i, ProbeReport report) {
    const std::lock_guard lock(mutex_);
    done_[i] = std::move(report);
    changed_.notify_one();
  }

  /// Waits for the report of `i`. Meanwhile it now and then calls `waiting` with all places that are still awaited.
  template <class Waiting>
  const ProbeReport& take(std::size_t i, const Waiting& waiting) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, progress_every, [&] { return done_[i].has_value(); })) {
      std::vector<std::size_t> open;
      for (std::size_t k = i; k < done_.size(); ++k)
        if (!done_[k]) open.push_back(k);
      waiting(open);
    }
    return *done_[i];  // Nobody writes a report again.
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<ProbeReport>> done_;
};

/// A line on a terminal that is written again and again, and cleared before anything else is written.
class Progress {
 public:
  explicit Progress(const std::vector<Place>& places) : places_(places), on_(::isatty(STDERR_FILENO) == 1) {}

  void show(const std::vector<std::size_t>& open) {
    if (!on_) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_).count();
    std::string text = "waiting for " + places_[open.front()].replica->name;
    if (open.size() > 1) text += " and " + std::to_string(open.size() - 1) + " more";
    std::fprintf(stderr, "\r\x1b[K%s (%lld s)", text.c_str(), static_cast<long long>(seconds));
    shown_ = true;
  }

  void clear() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
  }

 private:
  const std::vector<Place>& places_;
  bool on_, shown_ = false;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

int probe(const config::Settings& settings, const ProbeOptions& options) {
  const auto places = places_of(settings);
  const auto stream_limit = metrics::ticks(options.timeout);
  Reports reports(places.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(places.size(), most_at_once); ++i)
    threads.emplace_back([&] {
      for (std::size_t k = next++; k < places.size(); k = next++)
        reports.put(k, probe_replica(settings, *places[k].pool, *places[k].replica, stream_limit));
    });

  const bool colours = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  Progress progress(places);
  std::size_t fine = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& report = reports.take(i, [&](const auto& open) { progress.show(open); });
    progress.clear();
    const Probed probed{settings, *places[i].pool, *places[i].replica, report};
    std::fputs((options.json ? json_of(probed) + "\n" : text_of(probed, colours)).c_str(), stdout);
    std::fflush(stdout);
    fine += report.fine() ? 1 : 0;
  }
  for (auto& thread : threads) thread.join();
  if (!options.json) std::printf("%zu of %zu replicas could be measured\n", fine, places.size());
  return fine == places.size() ? 0 : 1;
}

namespace {

using fleet::Engine;
using fleet::name_of;
using fleet::ReplicaFacts;

using metrics::TokenSource;
using metrics::TokensPerEvent;
using metrics::wire::JsonWriter;

constexpr std::size_t most_listed = 8;
constexpr std::size_t longest_name = 128;  ///< The most bytes that are shown of a name that a replica gave.

std::string time_of(std::optional<double> seconds) {
  if (!seconds) return "unknown";
  return *seconds < 1 ? fmt::format("{:.1f} ms", *seconds * 1e3) : fmt::format("{:.2f} s", *seconds);
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(names.size(), most_listed); ++i)
    text += (i > 0 ? ", \"" : "\"") + config::printable_ascii(names[i], longest_name) + "\"";
  if (names.size() > most_listed) text += fmt::format(", and {} more", names.size() - most_listed);
  return text + "]";
}

bool tokens_known(const ProbedStream& stream) { return stream.token_source != TokenSource::none; }
bool cached_known(const ProbeReport& report) {
  return (report.first && report.first->cached_tokens) || (report.again && report.again->cached_tokens);
}

void advise_usage(const Probed& p, std::vector<std::string>& lines) {
  const auto& report = p.report;
  if (!tokens_known(*report.first))
    lines.emplace_back("usage is not reported on streams: token counts and TPOT stay unknown");
  if (report.continuous_usage == true && !p.settings.measure.inject_continuous_usage &&
      report.first->tokens_per_event == TokensPerEvent::unknown)
    lines.emplace_back(
        "inject_continuous_usage = true tells the tokens of each event; without it the ITL of such streams is unknown");
  if (report.continuous_usage == false && p.settings.measure.inject_continuous_usage)
    lines.emplace_back("inject_continuous_usage is on, but this replica does not tell its usage on every chunk");
}

void advise_cached_tokens(const ProbeReport& report, std::vector<std::string>& lines) {
  if (cached_known(report)) return;
  const auto engine = report.facts.engine;
  if ((engine == Engine::vllm || engine == Engine::aphrodite) && report.facts.prefix_caching != false)
    lines.push_back("start " + std::string(name_of(engine)) +
                    " with --enable-prompt-tokens-details to see cached tokens");
  if (engine == Engine::sglang) lines.emplace_back("start SGLang with --enable-cache-report to see cached tokens");
}

void advise_engine_metrics(const ReplicaFacts& facts, std::vector<std::string>& lines) {
  if (facts.metrics) return;
  if (facts.engine == Engine::llama_cpp) lines.emplace_back("start llama.cpp with --metrics to see its own load");
  if (facts.engine == Engine::sglang) lines.emplace_back("start SGLang with --enable-metrics to see its own load");
}

/// Advises on a limit that the replica knows and the settings lack or contradict.
void advise_limit(const char* key, const char* why, std::optional<std::uint64_t> set, std::optional<std::uint64_t> said,
                  std::vector<std::string>& lines) {
  if (!said || set == said) return;
  lines.push_back(set ? fmt::format("{} is {} in the settings, the replica says {}", key, *set, *said)
                      : fmt::format("{} = {} in this replica's table {}", key, *said, why));
}

void advise_models(const Probed& p, std::vector<std::string>& lines) {
  const auto& served = p.report.facts.models;
  if (p.pool.models.empty() || served.empty()) return;
  const bool all_served = std::ranges::all_of(
      p.pool.models, [&](const auto& model) { return std::ranges::find(served, model) != served.end(); });
  if (!all_served)
    lines.push_back("settings say models = " + list_of(p.pool.models) + ", the replica serves " + list_of(served));
}

/// Adds a line of a block: a label, blanks up to a column, and the text.
void add_line(std::string& out, const char* label, const std::string& text) {
  out += fmt::format("  {:<9} {}\n", label, text);
}

const char* yes_no(bool value) { return value ? "yes" : "no"; }

std::string stream_text(const ProbedStream& stream) {
  auto text = std::string(metrics::name_of(stream.api)) + ": TTFT " + time_of(stream.figures.ttft) + ", TPOT " +
              time_of(stream.figures.tpot) + ", ";
  text += stream.output_tokens ? fmt::format("{} tokens", *stream.output_tokens)
                               : std::string("an unknown number of tokens");
  text += fmt::format(" in {} events (k: {})", stream.token_events, metrics::name_of(stream.tokens_per_event));
  return text + (head_before_first_token(stream) ? ", head before" : ", head with") + " the first token";
}

std::string again_text(const ProbedStream& stream) {
  auto text = "TTFT " + time_of(stream.figures.ttft);
  if (stream.cached_tokens)
    text += fmt::format(", {} of {} prompt tokens cached", *stream.cached_tokens,
                        stream.prompt_tokens ? std::to_string(*stream.prompt_tokens) : "unknown");
  return text;
}

std::string limits_text(const ReplicaFacts& facts) {
  const auto count = [](const std::optional<std::uint64_t>& n) { return n ? std::to_string(*n) : "unknown"; };
  auto text = "KV cache " + count(facts.kv_tokens) + (facts.kv_tokens ? " tokens" : "") + ", max context " +
              count(facts.max_context);
  if (facts.slots) text += ", " + std::to_string(*facts.slots) + " slots";
  return text;
}

std::string engine_text(const ReplicaFacts& facts) {
  if (facts.engine == Engine::unknown) return "unknown engine";
  return std::string(name_of(facts.engine)) + " " +
         (facts.version.empty() ? "(version unknown)" : config::printable_ascii(facts.version, longest_name));
}

/// Returns nothing if there is no such stream.
std::optional<bool> if_there(const std::optional<ProbedStream>& stream, bool (*says)(const ProbedStream&)) {
  return stream ? std::optional(says(*stream)) : std::nullopt;
}

void write(JsonWriter& json, const std::optional<ProbedStream>& stream) {
  if (!stream) {
    json.null();
    return;
  }
  const auto time = [&json](const auto& key, std::optional<double> seconds) { json.key(key).fixed(seconds, 9); };
  json.open('{').key("api").text(metrics::name_of(stream->api));
  time("ttfb_s", stream->figures.ttfb);
  time("ttft_s", stream->figures.ttft);
  time("tpot_s", stream->figures.tpot);
  time("e2e_s", stream->figures.e2e);
  json.key("prompt_tokens").count(stream->prompt_tokens).key("cached_tokens").count(stream->cached_tokens);
  json.key("output_tokens").count(stream->output_tokens);
  json.key("tokens_source").text(metrics::name_of(stream->token_source));
  json.key("token_events").count(stream->token_events);
  json.key("k_source").text(metrics::name_of(stream->tokens_per_event)).close('}');
}

}  // namespace

/// Engines that send the head before prefill send it after tokenising, within a few milliseconds. The others send it
/// with the first token's event, in one write or two.
bool head_before_first_token(const ProbedStream& stream) {
  const auto &head = stream.figures.ttfb, &token = stream.figures.ttft;
  return head && token && *token - *head > 0.002 && *head < *token / 2;
}

std::vector<std::string> advice(const Probed& p) {
  std::vector<std::string> lines;
  const auto& facts = p.report.facts;
  advise_models(p, lines);
  if (p.report.first) {
    advise_usage(p, lines);
    advise_cached_tokens(p.report, lines);
  }
  advise_engine_metrics(facts, lines);
  // weir reads both by itself.
  if (p.replica.kv_tokens) advise_limit("kv_tokens", "", p.replica.kv_tokens, facts.kv_tokens, lines);
  if (p.replica.max_context) advise_limit("max_context", "", p.replica.max_context, facts.max_context, lines);
  // Only fewer slots than set contradict the settings, because an operator may want fewer requests than slots.
  if (facts.slots && (!p.replica.max_in_flight || *p.replica.max_in_flight > *facts.slots))
    advise_limit("max_in_flight", "sends it no more requests than it has slots",
                 p.replica.max_in_flight ? std::optional<std::uint64_t>(*p.replica.max_in_flight) : std::nullopt,
                 facts.slots, lines);
  return lines;
}

std::string text_of(const Probed& p, bool colours) {
  const auto coloured = [&](const char* code, const std::string& text) {
    return colours ? std::string("\x1b[") + code + "m" + text + "\x1b[0m" : text;
  };
  const auto& report = p.report;
  auto out = coloured("1", p.replica.name) + "  " + config::to_text(p.replica.url) + "  " +
             (report.reachable ? engine_text(report.facts) + "  " : "") +
             (report.fine() ? coloured("32", "fine") : coloured("31", "FAILED: " + report.failure)) + '\n';
  if (!report.reachable) return out;
  add_line(out, "models", report.facts.models.empty() ? "unknown" : list_of(report.facts.models));
  add_line(out, "limits", limits_text(report.facts));
  if (report.first) add_line(out, "stream", stream_text(*report.first));
  if (report.again) add_line(out, "again", again_text(*report.again));
  if (report.again)
    add_line(out, "reports",
             std::string("tokens of a stream: ") + yes_no(tokens_known(*report.first)) +
                 ", cached tokens: " + yes_no(cached_known(report)) + ", usage on every chunk: " +
                 (report.continuous_usage ? yes_no(*report.continuous_usage) : "not asked"));
  for (const auto& line : advice(p)) out += "  " + coloured("33", "-> " + line) + '\n';
  return out;
}

std::string json_of(const Probed& p) {
  const auto& report = p.report;
  const auto& facts = report.facts;
  JsonWriter json;
  json.open('{').key("replica").text(p.replica.name).key("pool").text(p.pool.name);
  json.key("url").text(config::to_text(p.replica.url));
  json.key("fine").boolean(report.fine()).key("reachable").boolean(report.reachable);
  json.key("failure").known_text(report.failure);
  json.key("engine").text(name_of(facts.engine)).key("engine_version").known_text(facts.version);
  json.key("models").texts(facts.models).key("kv_tokens").count(facts.kv_tokens);
  json.key("max_context").count(facts.max_context).key("slots").count(facts.slots);
  json.key("engine_metrics").boolean(facts.metrics);
  json.key("usage_on_streams").boolean(if_there(report.first, tokens_known));
  json.key("cached_tokens_reported").boolean(report.again ? std::optional(cached_known(report)) : std::nullopt);
  json.key("continuous_usage").boolean(report.continuous_usage);
  json.key("head_before_first_token").boolean(if_there(report.first, head_before_first_token));
  json.key("stream");
  write(json, report.first);
  json.key("again");
  write(json, report.again);
  json.key("advice").texts(advice(p)).close('}');
  return std::move(json).written();
}

}  // namespace weir::proxy::probe
