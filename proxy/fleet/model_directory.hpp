// What GET /v1/models and GET /v1/models/{id} answer: what the replicas tell of their models, which are asked every few
// seconds on the control thread, each with its own key where it has one.
//
// A replica that wants a key and has none of its own here is asked on behalf of each client that brings a credential,
// on the loop of that client: at most 16 such replicas a request, 64 requests at a time, 2 s. What it answers is for
// that client alone and is kept nowhere.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/model_asking.hpp"
#include "proxy/fleet/published.hpp"
#include "proxy/fleet/served_models.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/own_answer.hpp"
#include "proxy/http/routes.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::fleet {

/// By ReplicaState::id.
using ToldModels = std::map<std::uint64_t, std::shared_ptr<const ModelEntries>>;

/// Published whole, and never changed.
struct KnownModels {
  std::shared_ptr<const World> world;
  ToldModels told;
  std::vector<std::shared_ptr<const ReplicaRuntime>>
      keyed;  ///< They want a client's credential. In the order of the file.
  ServedModels served;
  std::string text;  ///< The answer to GET /v1/models.
};

class ModelDirectory {
 public:
  /// Publishes what the settings say.
  explicit ModelDirectory(const Fleet& fleet);
  ~ModelDirectory();

  /// Asks the replicas on the control thread until the context stops, and publishes what they answer.
  void start(boost::asio::io_context& context);

  /// The answer to a request of Route::models or Route::model, on the client's loop. `head` and `halt` outlive the
  /// wait. Once it is halted, the replicas' connections are closed at once, and the answer is of what is known.
  net::Awaitable<http::OwnAnswer> answer(const http::RequestHead& head, http::Route route, Halt& halt);

 private:
  class Answers;

  const Fleet& fleet_;
  std::unique_ptr<Answers> answers_;
  Published<std::shared_ptr<const KnownModels>> known_;
  std::atomic<unsigned> asking_{0};  ///< Clients for whom replicas are asked now.
};

}  // namespace weir::proxy::fleet
