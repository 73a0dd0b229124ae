#include "lab/sim/truth.hpp"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include "lab/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::sim {
namespace {

// vLLM exports these bounds; here they are nanoseconds.
constexpr std::uint64_t ms = 1'000'000;
constexpr std::array<std::uint64_t, 22> first_token_bounds{
    1 * ms,     5 * ms,     10 * ms,    20 * ms,     40 * ms,     60 * ms,     80 * ms,   100 * ms,
    250 * ms,   500 * ms,   750 * ms,   1000 * ms,   2500 * ms,   5000 * ms,   7500 * ms, 10000 * ms,
    20000 * ms, 40000 * ms, 80000 * ms, 160000 * ms, 640000 * ms, 2560000 * ms};
constexpr std::array<std::uint64_t, 19> per_token_bounds{
    10 * ms,  25 * ms,   50 * ms,   75 * ms,   100 * ms,  150 * ms,   200 * ms,   300 * ms,   400 * ms,  500 * ms,
    750 * ms, 1000 * ms, 2500 * ms, 5000 * ms, 7500 * ms, 10000 * ms, 20000 * ms, 40000 * ms, 80000 * ms};

std::uint64_t positive(std::chrono::nanoseconds d) { return d.count() > 0 ? static_cast<std::uint64_t>(d.count()) : 0; }

std::string seconds_text(std::uint64_t nanoseconds) { return fmt::format("{:.9g}",
                                                                         static_cast<double>(nanoseconds) / 1e9); }

class Page {
 public:
  explicit Page(std::string labels) : labels_(std::move(labels)) {}

  void value(std::string_view type, const std::string& name, std::string_view help, const std::string& value) {
    head(type, name, help);
    text += name + braces("") + " " + value + "\n";
  }

  void histogram(const std::string& name, std::string_view help, const metrics::series::Histogram& h) {
    head("histogram", name, help);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < h.bounds().size(); ++i) {
      below += h.bucket(i);
      text +=
          name + "_bucket" + braces("le=\"" + seconds_text(h.bounds()[i]) + "\"") + " " + std::to_string(below) + "\n";
    }
    below += h.bucket(h.bounds().size());
    text += name + "_bucket" + braces("le=\"+Inf\"") + " " + std::to_string(below) + "\n";
    text += name + "_sum" + braces("") + " " + seconds_text(h.sum()) + "\n";
    text += name + "_count" + braces("") + " " + std::to_string(below) + "\n";
  }

  std::string text;

 private:
  void head(std::string_view type, const std::string& name, std::string_view help) {
    text.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
    text.append(name).append(" ").append(type).append("\n");
  }
  std::string braces(const std::string& more) const {
    if (labels_.empty() && more.empty()) return "";
    return "{" + labels_ + (labels_.empty() || more.empty() ? "" : ",") + more + "}";
  }

  std::string labels_;
};

/// Writes a label's value as the text format quotes it.
std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string truth_line(const Truth& truth) {
  static constexpr std::array<std::string_view, 3> statuses{"finished", "aborted", "refused"};
  const auto since_boot = [](const std::optional<Moment>& m) {
    return m ? std::optional(static_cast<std::uint64_t>(m->time_since_epoch().count())) : std::nullopt;
  };
  metrics::wire::JsonWriter json;
  json.open('{').key("request_id").text(truth.request_id);
  json.key("status").text(statuses[static_cast<std::size_t>(truth.status)]).key("stream").boolean(truth.stream);
  json.key("received_ns").count(since_boot(truth.received)).key("first_token_ns").count(since_boot(truth.first_token));
  json.key("last_token_ns").count(since_boot(truth.last_token)).key("prompt_tokens").count(truth.prompt_tokens);
  json.key("cached_tokens").count(truth.cached_tokens).key("output_tokens").count(truth.output_tokens);
  return json.close('}').written();
}

Ledger::Ledger(const std::string& path)
    : started_(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()),
      time_to_first_token_(first_token_bounds), time_per_output_token_(per_token_bounds) {
  if (path == "-") log_ = &std::cout;
  if (path.empty() || log_) return;
  file_.open(path, std::ios::app);
  if (!file_) throw std::runtime_error("cannot open the log " + path + ": " + std::strerror(errno));
  log_ = &file_;
}

void Ledger::tokens(const Truth& truth, std::uint64_t made) {
  output_tokens_ += made;
  if (truth.output_tokens > made) return;
  prompt_tokens_ += truth.prompt_tokens;
  cached_tokens_ += truth.cached_tokens;
  if (truth.stream) time_to_first_token_.observe(positive(*truth.first_token - truth.received));
}

void Ledger::add(const Truth& truth) {
  ++requests_[static_cast<std::size_t>(truth.status)];
  if (truth.stream && truth.status == Status::finished && truth.output_tokens > 1) {
    time_per_output_token_.observe(positive(*truth.last_token - *truth.first_token) / (truth.output_tokens - 1));
  }
  // The line is flushed, because a test reads it while the replica runs.
  if (log_) *log_ << truth_line(truth) << std::endl;
}

std::string Ledger::metrics(const engine::EngineModel& engine, std::string_view model, bool tgi) const {
  const std::string running = std::to_string(engine.running());
  const std::string waiting = std::to_string(engine.waiting());
  if (tgi) {
    Page page("");
    page.value("gauge", "tgi_queue_size", "Requests that wait.", waiting);
    page.value("gauge", "tgi_batch_current_size", "Requests in the running batch.", running);
    page.value("gauge", "tgi_batch_current_max_tokens", "Tokens reserved by the running batch.",
               std::to_string(engine.kv_reserved()));
    page.value("gauge", "tgi_batch_max_total_tokens", "Tokens that a batch may reserve.",
               std::to_string(engine.settings().kv_tokens));
    page.value("counter", "tgi_request_success", "Requests answered.", std::to_string(requests_[0]));
    return page.text;
  }
  Page page("model_name=\"" + label_value(model) + "\",engine=\"0\"");
  page.value("gauge", "vllm:num_requests_running", "Requests in execution.", running);
  page.value("gauge", "vllm:num_requests_waiting", "Requests that wait.", waiting);
  const double share = static_cast<double>(engine.kv_reserved()) / static_cast<double>(engine.settings().kv_tokens);
  page.value("gauge", "vllm:kv_cache_usage_perc", "KV cache in use, 0 to 1.", std::to_string(share));
  page.value("counter", "vllm:prompt_tokens_total", "Prompt tokens prefilled.", std::to_string(prompt_tokens_));
  if (engine.settings().prefix_caching != engine::PrefixCaching::none) {
    page.value("counter", "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
               std::to_string(prompt_tokens_));
    page.value("counter", "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
               std::to_string(cached_tokens_));
  }
  page.value("counter", "vllm:generation_tokens_total", "Output tokens made.", std::to_string(output_tokens_));
  page.value("counter", "vllm:request_success_total", "Requests answered.", std::to_string(requests_[0]));
  page.histogram("vllm:time_to_first_token_seconds", "From the request's arrival to its first token written; streams.",
                 time_to_first_token_);
  page.histogram("vllm:time_per_output_token_seconds", "(last - first token) / (tokens - 1) of each stream.",
                 time_per_output_token_);
  Page process("");
  process.value("gauge", "process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
                fmt::format("{:.3f}", started_));
  return page.text + process.text;
}

}  // namespace weir::lab::sim
