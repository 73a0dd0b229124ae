#include "proxy/fleet/model_directory.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/json/serialize.hpp>
#include <functional>
#include <set>

#include "metrics/measure/stream_meter.hpp"
#include "proxy/fleet/question.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using Executor = asio::io_context::executor_type;
using Stream = boost::beast::basic_stream<asio::ip::tcp, Executor>;
using net::Timer;

constexpr std::chrono::seconds ask_every{5};
constexpr std::chrono::seconds time_limit{2};
constexpr std::size_t read_size = 16 * 1024;
constexpr std::size_t longest_list = 1024 * 1024;
/// A longer list is not read on a loop, because tokens wait meanwhile.
constexpr std::size_t longest_list_on_loop = 256 * 1024;
constexpr std::size_t most_keyed = 16;
constexpr unsigned most_clients = 64;

struct ModelAnswer {
  unsigned status = 0;  ///< It is 0 if there was no whole answer.
  ModelEntries entries;
};

class ListReader final : public AnswerReader {
 public:
  explicit ListReader(std::size_t longest) : longest_(longest) {}
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override { status_ = head.status; }
  bool body(std::span<const char> bytes, metrics::Moment) override {
    body_.append(bytes.data(), bytes.size());
    return body_.size() <= longest_;
  }
  void end(bool whole, bool, metrics::Moment) override { whole_ = whole; }
  ModelAnswer answer() const {
    return whole_ ? ModelAnswer{status_, status_ == 200 ? entries_of(body_) : ModelEntries()} : ModelAnswer();
  }

 private:
  std::size_t longest_;
  unsigned status_ = 0;
  std::string body_;
  bool whole_ = false;
};

/// Asks one replica for its models.
net::Awaitable<ModelAnswer> ask(const ReplicaRuntime& replica, std::string credential, std::size_t longest) {
  const auto endpoint = replica.state->address.get();
  if (!endpoint) co_return ModelAnswer();
  const auto executor = co_await asio::this_coro::executor;
  boost::system::error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  Stream stream(executor);
  stream.expires_after(time_limit);
  co_await stream.async_connect(*endpoint, token);
  if (error) co_return ModelAnswer();
  Question question;
  question.path = "/v1/models";
  question.credential = std::move(credential);
  const auto bytes = bytes_of(replica.settings.url, question);
  const auto to_write = asio::buffer(bytes);
  co_await asio::async_write(stream, to_write, token);
  if (error) co_return ModelAnswer();
  ListReader reader(longest);
  ReplicaAnswer answer(reader, Clock::now());
  std::vector<char> buffer(read_size + metrics::measure::StreamMeter::padding);
  const auto to_read = asio::buffer(buffer.data(), read_size);
  for (;;) {
    const auto size = co_await stream.async_read_some(to_read, token);
    if (error == asio::error::eof) answer.closed(Clock::now());
    if (error) break;
    if (answer.arrived({buffer.data(), size}, Clock::now())) break;
  }
  co_return reader.answer();
}

struct ModelQuestion {
  std::shared_ptr<const ReplicaRuntime> replica;
  std::string credential;
};
using Tell = std::function<void(const ReplicaRuntime&, ModelAnswer)>;

/// What the questions of one round share. The last of them to end may outlive the round.
struct QuestionRound {
  QuestionRound(const Executor& executor, std::size_t n, Tell teller)
      : timer(executor), open(n), tell(std::move(teller)) {}

  /// Ends all that is still running.
  void stop() {
    for (auto& signal : signals) signal->emit(asio::cancellation_type::terminal);
    timer.cancel();
  }

  Timer timer;
  std::size_t open;
  Tell tell;
  std::vector<std::unique_ptr<asio::cancellation_signal>> signals;
};

/// Asks all replicas at once, and tells of each as it answers. Returns when all have answered, the time is up, or it is
/// halted.
net::Awaitable<void> ask_all(std::vector<ModelQuestion> questions, std::size_t longest, Tell tell, Halt* halt) {
  const Executor executor = co_await asio::this_coro::executor;
  const auto round = std::make_shared<QuestionRound>(executor, questions.size(), std::move(tell));
  round->timer.expires_after(time_limit);
  for (auto& question : questions) {
    const auto replica = question.replica;
    auto answered = [round, replica](const std::exception_ptr&, ModelAnswer told) {
      if (round->tell) round->tell(*replica, std::move(told));
      if (--round->open == 0) round->timer.cancel();
    };
    auto& signal = *round->signals.emplace_back(std::make_unique<asio::cancellation_signal>());
    auto stoppable = asio::bind_cancellation_slot(signal.slot(), std::move(answered));
    asio::co_spawn(executor, ask(*replica, std::move(question.credential), longest), std::move(stoppable));
  }
  if (halt != nullptr) halt->stops([round] { round->stop(); });
  boost::system::error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  const bool halted = halt != nullptr && halt->called();
  if (round->open > 0 && !halted) co_await round->timer.async_wait(token);
  round->tell = nullptr;
  if (halt != nullptr) halt->stops(nullptr);
}

ServedModels served_by(const World& world, const ToldModels& told) {
  ServedModels served;
  for (const auto& pool : world.pools) {
    std::vector<std::shared_ptr<const ModelEntries>> entries;
    for (const auto& replica : pool->replicas)
      if (const auto found = told.find(replica->state->id); found != told.end()) entries.push_back(found->second);
    served.add_pool(pool->settings.models, entries);
  }
  return served;
}

/// Returns the fields by which a client shows who it is, each with its CRLF.
std::string credential_of(const http::RequestHead& head) {
  std::string fields;
  for (const auto& field : head.fields)
    if (!field.value.empty() &&
        (http::same_token(field.name, "authorization") || http::same_token(field.name, "x-api-key")))
      fields.append(field.name).append(": ").append(field.value).append("\r\n");
  return fields;
}

/// `refused` says that a replica wants a key, and got none that it takes.
http::OwnAnswer answer_from(const ServedModels& served, const std::string* text, const http::RequestHead& head,
                            http::Route route, bool refused) {
  if (served.empty() && refused)
    return http::error_answer(401, "invalid_request_error", "invalid_api_key",
                              "the replicas tell their models only to who has their key: send it as "
                              "'Authorization: Bearer KEY' or 'x-api-key: KEY'");
  http::OwnAnswer answer;
  if (route == http::Route::models) {
    answer.body = text != nullptr ? *text : served.text();
    return answer;
  }
  const auto id = http::model_id_in(head.path);
  const auto* entry = id ? served.find(*id) : nullptr;
  if (entry == nullptr) {
    const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
    const bool fit = id && std::all_of(id->begin(), id->end(), printable);
    return http::error_answer(404, "invalid_request_error", "model_not_found",
                              "the model '" + (fit ? *id : std::string(head.path)) +
                                  "' is not served here; GET /v1/models lists those that are");
  }
  answer.body = boost::json::serialize(*entry) + "\n";
  return answer;
}

/// A place for one of the clients on whose behalf replicas are being asked.
class ClientSlot {
 public:
  explicit ClientSlot(std::atomic<unsigned>& taken) : taken_(taken), got_(taken.fetch_add(1) < most_clients) {}
  ~ClientSlot() { taken_.fetch_sub(1); }
  ClientSlot(const ClientSlot&) = delete;
  ClientSlot& operator=(const ClientSlot&) = delete;
  bool got() const { return got_; }

 private:
  std::atomic<unsigned>& taken_;
  bool got_;
};

}  // namespace

/// What the replicas have told so far, on the control thread.
class ModelDirectory::Answers {
 public:
  explicit Answers(ModelDirectory& directory) : directory_(directory) {}

  std::vector<ModelQuestion> questions() const {
    std::vector<ModelQuestion> all;
    for (const auto& pool : world_->pools)
      for (const auto& replica : pool->replicas) all.push_back({replica, bearer(replica->settings.api_key)});
    return all;
  }

  void learn(const ReplicaRuntime& replica, ModelAnswer answer) {
    if (answer.status == 401 || answer.status == 403) {
      const bool forgotten = told_.erase(replica.state->id) > 0;
      if (!refusing_.insert(replica.state->id).second && !forgotten) return;
      const auto& name = replica.settings.name;
      if (replica.settings.api_key.empty())
        spdlog::info("replica '{}' tells its models only to who has its key: clients' own are used, or set api_key",
                     name);
      else
        spdlog::warn("replica '{}' refuses the key that its api_key or api_key_file gives it", name);
      return publish();
    }
    if (answer.status != 200) return;
    // A replica that does not answer now keeps its earlier list: it serves the same model when it is back.
    const bool welcome = refusing_.erase(replica.state->id) > 0;
    auto& known = told_[replica.state->id];
    const bool news = known == nullptr || (!answer.entries.empty() && *known != answer.entries);
    if (news) known = std::make_shared<const ModelEntries>(std::move(answer.entries));
    if (news || welcome) publish();
  }

  net::Awaitable<void> keep_asking() {
    const auto executor = co_await asio::this_coro::executor;
    Timer timer(executor);
    const Tell tell = [this](const ReplicaRuntime& replica, ModelAnswer told) { learn(replica, std::move(told)); };
    for (;;) {
      auto all = questions();
      co_await ask_all(std::move(all), longest_list, tell, nullptr);
      for (const auto due = Clock::now() + ask_every; Clock::now() < due && !follow_world();) {
        timer.expires_after(look_for_a_new_world_every);
        co_await timer.async_wait(net::use_awaitable);
      }
    }
  }

  /// Returns true if there is a new world; what is known of it is then published.
  bool follow_world() {
    auto world = directory_.fleet_.world();
    if (world == world_) return false;
    world_ = std::move(world);
    std::set<std::uint64_t> named;
    for (const auto& pool : world_->pools)
      for (const auto& replica : pool->replicas) named.insert(replica->state->id);
    std::erase_if(told_, [&named](const auto& one) { return !named.contains(one.first); });
    std::erase_if(refusing_, [&named](std::uint64_t id) { return !named.contains(id); });
    publish();
    return true;
  }

  void publish() const {
    auto known = std::make_shared<KnownModels>();
    known->world = world_;
    known->told = told_;
    for (const auto& pool : world_->pools)
      for (const auto& replica : pool->replicas)
        if (replica->settings.api_key.empty() && refusing_.contains(replica->state->id))
          known->keyed.push_back(replica);
    known->served = served_by(*world_, told_);
    known->text = known->served.text();
    directory_.known_.set(std::move(known));
  }

 private:
  ModelDirectory& directory_;
  std::shared_ptr<const World> world_;
  ToldModels told_;
  std::set<std::uint64_t> refusing_;  ///< They answered 401 or 403.
};

ModelDirectory::ModelDirectory(const Fleet& fleet) : fleet_(fleet), answers_(std::make_unique<Answers>(*this)) {
  answers_->follow_world();
}

ModelDirectory::~ModelDirectory() = default;

void ModelDirectory::start(asio::io_context& context) {
  asio::co_spawn(context, answers_->keep_asking(), asio::detached);
}

net::Awaitable<http::OwnAnswer> ModelDirectory::answer(const http::RequestHead& head, http::Route route, Halt& halt) {
  const auto known = known_.get();
  const auto credential = credential_of(head);
  if (credential.empty() || known->keyed.empty())
    co_return answer_from(known->served, &known->text, head, route, !known->keyed.empty());

  const ClientSlot place(asking_);
  if (!place.got()) {
    auto busy = http::error_answer(429, "overloaded_error", "overloaded",
                                   "too many clients ask for the models of replicas that want a key: try again in 1 s");
    busy.retry_after = 1;
    co_return busy;
  }
  std::vector<ModelQuestion> questions;
  for (const auto& replica : known->keyed)
    if (questions.size() < most_keyed) questions.push_back({replica, credential});
  ToldModels told = known->told;
  bool refused = false;
  const Tell tell = [&told, &refused](const ReplicaRuntime& replica, ModelAnswer answer) {
    refused |= answer.status == 401 || answer.status == 403;
    if (answer.status == 200) told[replica.state->id] = std::make_shared<const ModelEntries>(std::move(answer.entries));
  };
  co_await ask_all(std::move(questions), longest_list_on_loop, tell, &halt);
  const auto served = served_by(*known->world, told);
  co_return answer_from(served, nullptr, head, route, refused);
}

}  // namespace weir::proxy::fleet
