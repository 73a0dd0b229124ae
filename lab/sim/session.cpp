#include "lab/sim/session.hpp"

#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include "lab/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::sim {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

std::string models_body(const Replica& replica) {
  metrics::wire::JsonWriter json;
  json.open('{').key("object").text("list").key("data").open('[').open('{').key("id").text(replica.model);
  json.key("object").text("model").key("owned_by").text("weir-lab").key("root").text(replica.model);
  json.key("parent").null().key("max_model_len").count(replica.engine.model().settings().kv_tokens);
  return json.close('}').close(']').close('}').written();
}

std::int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

Session::Session(asio::ip::tcp::socket socket, Replica& replica) : socket_(std::move(socket)), replica_(replica) {
  replica_.sessions.insert(this);
  buffer_.reserve(16 * 1024);
}

Session::~Session() { replica_.sessions.erase(this); }

void Session::start() {
  error_code ignored;
  socket_.tcp().set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.tcp().non_blocking(true, ignored);
  read_request();
}

void Session::read_request() {
  parser_.emplace();
  parser_->body_limit(body_limit);
  const auto done = [self = shared_from_this()](error_code ec, std::size_t) { self->on_head(ec); };
  http::async_read_header(socket_, buffer_, *parser_, done);
}

void Session::on_head(error_code ec) {
  if (ec || closed_) return close();
  if (!boost::beast::iequals(parser_->get()[http::field::expect], "100-continue")) return read_body();
  static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
  const auto done = [self = shared_from_this()](error_code failed, std::size_t) {
    failed ? self->close() : self->read_body();
  };
  asio::async_write(socket_.tcp(), asio::buffer(go_on), done);
}

void Session::read_body() {
  const auto done = [self = shared_from_this()](error_code ec, std::size_t) { self->on_request(ec); };
  http::async_read(socket_, buffer_, *parser_, done);
}

void Session::on_request(error_code ec) {
  if (closed_) return;
  if (ec && ec != http::error::body_limit) return close();
  answering_ = true;
  answer_complete_ = false;
  keep_alive_ = !ec && parser_->get().keep_alive();
  if (ec) return respond(413, "text/plain", "The body is larger than " + std::to_string(body_limit) + " bytes.\n");
  watch();
  dispatch();
}

/// Keeps one read pending while an answer is sent. A client that pipelines too much is no longer read from; then only a
/// failed write shows that it has gone.
void Session::watch() {
  if (buffer_.size() >= pipelined_limit) return;
  watching_ = true;
  const auto done = [self = shared_from_this()](error_code ec, std::size_t n) { self->on_watched(ec, n); };
  socket_.async_read_some(buffer_.prepare(4096), done);
}

void Session::on_watched(error_code ec, std::size_t n) {
  watching_ = false;
  if (closed_) return;
  // The read was cancelled because the next request was already in the buffer.
  if (ec && !(ec == asio::error::operation_aborted && !answering_)) return close();
  buffer_.commit(n);
  answering_ ? watch() : read_request();
}

void Session::dispatch() {
  const std::string_view target(parser_->get().target().data(), parser_->get().target().size());
  const std::string_view path = target.substr(0, target.find('?'));
  const http::verb method = parser_->get().method();
  if (const auto route = route_of(path)) {
    if (method != http::verb::post) return respond(405, "application/json", R"({"detail":"Method Not Allowed"})");
    return infer(*route);
  }
  if (method == http::verb::get) {
    if (path == "/health" || path == "/ping") return respond(200, "", "");
    if (path == "/v1/models") return respond(200, "application/json", models_body(replica_));
    if (path == "/metrics") {
      return respond(200, "text/plain; version=0.0.4; charset=utf-8",
                     replica_.ledger.metrics(replica_.engine.model(), replica_.model, replica_.tgi_metrics));
    }
  }
  if (method == http::verb::post && (path == "/reset_prefix_cache" || path == "/flush_cache")) {
    replica_.engine.flush();  // vLLM's and SGLang's names for it.
    return respond(200, "", "");
  }
  respond(404, "application/json", R"({"detail":"Not Found"})");
}

void Session::infer(Route route) {
  Truth truth;
  truth.received = socket_.arrived();
  const auto id = parser_->get()["x-request-id"];
  truth.request_id.assign(id.data(), id.size());

  const auto type = parser_->get()[http::field::content_type];
  if (!is_tgi(route) && !is_json({type.data(), type.size()})) {
    return refuse(route, Refusal{400, "Unsupported Media Type: Only 'application/json' is allowed"}, truth);
  }
  const auto read = read_request_body(route, parser_->get().body(), keeps_prefixes());
  if (const Refusal* refusal = std::get_if<Refusal>(&read)) return refuse(route, *refusal, truth);
  const Request& request = std::get<Request>(read);
  truth.stream = request.stream;
  truth.prompt_tokens = request.prompt_tokens;
  if (!request.model.empty() && request.model != replica_.model) {
    return refuse(route, Refusal{404, "The model `" + request.model + "` does not exist."}, truth);
  }
  if (request.stream && parser_->get().version() < 11) {
    return refuse(route, Refusal{400, "A stream needs HTTP/1.1: it is sent in chunks."}, truth);
  }

  const std::uint64_t seed = replica_.random.next();
  const AnswerPlan plan = plan_answer(request, replica_.random);
  engine::Sequence sequence{replica_.next_id++, request.prompt_tokens, plan.tokens};
  generation_.emplace(Generation{sequence.id, Answer(request, plan, replica_.model, seed, unix_seconds()), truth});
  if (keeps_prefixes()) {
    engine::PromptBlocks blocks = request.blocks;
    add_answer(blocks, plan, generation_->answer.text(), replica_.thoughts ? std::optional(seed) : std::nullopt);
    sequence.blocks = blocks.take();
  }
  if (!replica_.engine.submit(sequence, *this)) {
    generation_.reset();
    const std::uint64_t limit = replica_.engine.model().settings().kv_tokens;
    return refuse(route,
                  Refusal{is_tgi(route) ? 422u : 400u,
                          "This replica's context is " + std::to_string(limit) + " tokens; the prompt has " +
                              std::to_string(request.prompt_tokens) + " and " + std::to_string(plan.tokens) +
                              " are to be generated. Shorten the prompt or lower max_tokens."},
                  truth);
  }
  if (request.stream) {
    generation_->answer.append_head(out_, keep_alive_);
    flush();
  }
}

void Session::refuse(Route route, const Refusal& refusal, Truth truth) {
  truth.status = Status::refused;
  replica_.ledger.add(truth);
  respond(refusal.status, "application/json", refusal_body(route, refusal));
}

void Session::respond(unsigned status, std::string_view content_type, std::string_view body) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  out_ += "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason.data(), reason.size()) + "\r\n";
  out_ += "server: weir-lab-sim\r\n";
  if (!content_type.empty()) out_.append("content-type: ").append(content_type).append("\r\n");
  if (!keep_alive_) out_ += "connection: close\r\n";
  out_ += "content-length: " + std::to_string(body.size()) + "\r\n\r\n";
  out_ += body;
  answer_complete_ = true;
  flush();
  next_if_answered();
}

void Session::on_token(const engine::TokenEvent& event) {
  const auto self = shared_from_this();  // A failed write closes the session.
  Truth& truth = generation_->truth;
  truth.output_tokens = event.index;
  truth.cached_tokens = event.cached_tokens;
  if (keeps_prefixes()) {
    generation_->answer.cached(engine::reported_tokens(replica_.cache_report, event.cached_tokens));
  }
  if (truth.stream) {
    generation_->answer.append_tokens(out_, event.index - event.tokens + 1, event.index);
    flush();
    if (closed_) return;
  }
  truth.last_token = std::chrono::steady_clock::now();
  if (!truth.first_token) truth.first_token = truth.last_token;
  replica_.ledger.tokens(truth, event.tokens);
  if (!event.last) return;

  const std::string whole = truth.stream ? "" : generation_->answer.whole();
  const bool streamed = truth.stream;
  replica_.ledger.add(truth);
  generation_.reset();
  if (!streamed) return respond(200, "application/json", whole);
  answer_complete_ = true;
  next_if_answered();
}

/// Hands out_ to the kernel at once. Only what the kernel does not take waits for the socket.
void Session::flush() {
  if (closed_ || out_.empty() || !writing_.empty()) return;
  error_code ec;
  const std::size_t n = socket_.tcp().write_some(asio::buffer(out_), ec);
  if (ec && ec != asio::error::would_block) return close();
  out_.erase(0, ec ? 0 : n);
  if (out_.empty()) return;
  writing_.swap(out_);
  const auto done = [self = shared_from_this()](error_code failed, std::size_t) {
    self->writing_.clear();
    if (failed) return self->close();
    self->flush();
    self->next_if_answered();
  };
  asio::async_write(socket_.tcp(), asio::buffer(writing_), done);
}

void Session::next_if_answered() {
  if (closed_ || !answer_complete_ || !answering_ || !out_.empty() || !writing_.empty()) return;
  answering_ = false;
  if (!keep_alive_) return close();
  if (!watching_) return read_request();
  // The pending read goes on to wait for the next request, unless part of that has already been read.
  if (buffer_.size() > 0) socket_.tcp().cancel();
}

void Session::close() {
  if (closed_) return;
  closed_ = true;
  if (generation_) {
    replica_.engine.abort(generation_->id);
    generation_->truth.status = Status::aborted;
    replica_.ledger.add(generation_->truth);
    generation_.reset();
  }
  error_code ignored;
  socket_.tcp().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  socket_.tcp().close(ignored);
}

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

std::string seconds_text(std::uint64_t nanoseconds) {
  return fmt::format("{:.9g}", static_cast<double>(nanoseconds) / 1e9);
}

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
      time_to_first_token_(first_token_bounds),
      time_per_output_token_(per_token_bounds) {
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
  const auto now = engine.occupancy();
  const std::string running = std::to_string(now.running), waiting = std::to_string(now.waiting);
  if (tgi) {
    Page page("");
    page.value("gauge", "tgi_queue_size", "Requests that wait.", waiting);
    page.value("gauge", "tgi_batch_current_size", "Requests in the running batch.", running);
    page.value("gauge", "tgi_batch_current_max_tokens", "Tokens reserved by the running batch.",
               std::to_string(now.kv_reserved));
    page.value("gauge", "tgi_batch_max_total_tokens", "Tokens that a batch may reserve.",
               std::to_string(engine.settings().kv_tokens));
    page.value("counter", "tgi_request_success", "Requests answered.", std::to_string(requests_[0]));
    return page.text;
  }
  Page page("model_name=\"" + label_value(model) + "\",engine=\"0\"");
  page.value("gauge", "vllm:num_requests_running", "Requests in execution.", running);
  page.value("gauge", "vllm:num_requests_waiting", "Requests that wait.", waiting);
  const double share = static_cast<double>(now.kv_reserved) / static_cast<double>(engine.settings().kv_tokens);
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
