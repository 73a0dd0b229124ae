#include "proxy/routes.hpp"

#include <gtest/gtest.h>

namespace weir::proxy {
namespace {

using Paths = std::vector<std::string>;

TEST(Routes, ServeInferenceAndNothingElseByDefault) {
  for (const auto* path : {"/v1/chat/completions",
                           "/chat/completions",
                           "/v1/completions",
                           "/completions",
                           "/completion",
                           "/v1/responses",
                           "/responses",
                           "/v1/messages",
                           "/",
                           "/generate",
                           "/generate_stream",
                           "/api/chat",
                           "/api/generate",
                           "/api/extra/generate/stream",
                           "/api/v1/generate",
                           "/api/latest/generate",
                           "/v1/embeddings",
                           "/embeddings",
                           "/embed",
                           "/v1/rerank",
                           "/v2/rerank",
                           "/rerank",
                           "/v1/score",
                           "/score",
                           "/tokenize",
                           "/v1/tokenize",
                           "/detokenize"})
    EXPECT_EQ(route_of("POST", path, {}), Route::inference) << path;
  // What engines serve on the same port, and what only looks like a route.
  EXPECT_EQ(route_of("GET", "/", {}), Route::unknown);
  for (const auto* path : {"/metrics",
                           "/flush_cache",
                           "/update_weights_from_disk",
                           "/v1/load_lora_adapter",
                           "/sleep",
                           "/wake_up",
                           "/reset_prefix_cache",
                           "/start_profile",
                           "/slots",
                           "/props",
                           "/api/pull",
                           "/docs",
                           "/openapi.json",
                           "//v1/chat/completions",
                           "/v1//chat/completions",
                           "/v1/chat/completions/",
                           "/v1/chat/completions/../../metrics",
                           "/V1/chat/completions",
                           "/v1/chat%2fcompletions",
                           "/generate;x",
                           "generate",
                           ""})
    EXPECT_EQ(route_of("POST", path, {}), Route::unknown) << path;
}

TEST(Routes, AnswerHealthAndModelsThemselves) {
  for (const auto* method : {"GET", "HEAD"})
    for (const Paths& paths : {Paths{}, Paths{"*"}, Paths{"/health", "/v1/models"}}) {
      EXPECT_EQ(route_of(method, "/health", paths), Route::health);
      EXPECT_EQ(route_of(method, "/v1/models", paths), Route::models);
    }
  for (const auto* method : {"POST", "DELETE", "get", "OPTIONS"}) {
    EXPECT_EQ(route_of(method, "/health", {}), Route::unknown);
    EXPECT_EQ(route_of(method, "/v1/models", {}), Route::unknown);
    EXPECT_EQ(route_of(method, "/v1/models", {"*"}), Route::open);
  }
  EXPECT_EQ(route_of("GET", "/v1/models/m", {}), Route::unknown);
}

TEST(Routes, FollowTheSettings) {
  const Paths some{"/generate", "/metrics"};
  EXPECT_EQ(route_of("POST", "/generate", some), Route::inference);
  EXPECT_EQ(route_of("GET", "/metrics", some), Route::open);
  EXPECT_EQ(route_of("POST", "/v1/completions", some), Route::unknown) << "exactly these";
  EXPECT_EQ(route_of("GET", "/metrics/x", some), Route::unknown);
  EXPECT_EQ(route_of("POST", "/v1/completions", {"*"}), Route::inference);
  EXPECT_EQ(route_of("GET", "/anything", {"*"}), Route::open);
}

}  // namespace
}  // namespace weir::proxy
