@echo off
rem Starts denoise on Windows with a Deno that is recent enough. What is missing is fetched once.
rem Delayed expansion stays off: it takes exclamation marks out of prompts.
setlocal EnableExtensions DisableDelayedExpansion

rem The Deno that is fetched, and the oldest that is accepted, as major*1000000 + minor*1000 + patch.
set "wanted=2.9.6"
set "lowest=2009005"
rem SHA-256 of the program that is fetched, which npm and the release have alike.
set "sha256_win32_x64=2ff9493dfa356be2975f477025ea770088e9e9cb2c83d983236d13561b96b7a6"
set "sha256_win32_arm64=7259fbfaf9fb0d83551b7f85b38b3dc4d7c2c63cf05427b042fbf63bdcb6f778"
set "root=%~dp0"
set "cache=%USERPROFILE%\.cache\denoise"
if defined XDG_CACHE_HOME set "cache=%XDG_CACHE_HOME%\denoise"

set "deno="
call :use "%DENOISE_DENO%"
for %%F in (deno.exe) do call :use "%%~$PATH:F"
call :use "%USERPROFILE%\.deno\bin\deno.exe"
call :use "%cache%\deno-%wanted%.exe"
if not defined deno call :fetch
if not defined deno (
  call :say "Cannot find Deno: none of version 2.9.5 or later is on PATH, and neither npm nor curl with tar could fetch it; install Deno %wanted%, then start again"
  exit /b 1
)
if not exist "%SystemRoot%\System32\vulkan-1.dll" call :say "No Vulkan driver is installed: Direct3D is used, whose kernels take minutes to compile; install the driver of the GPU's maker"

rem The tests and the benchmarks are programs of their own; they drop their name from the arguments.
set "program=%root%cli.ts"
if not "%~2"=="--help" if not "%~2"=="-h" (
  if "%~1"=="test" set "program=%root%tools\gate.ts"
  if "%~1"=="bench" set "program=%root%tools\bench\main.ts"
)

rem A jump to nowhere ends the script, so that Ctrl-C asks nobody whether to terminate the batch job.
endlocal & goto :nowhere 2>nul || "%deno%" run -A --config "%root%deno.json" "%program%" %*
exit /b %ERRORLEVEL%

rem say TEXT
:say
>&2 echo denoise: %~1
exit /b 0

rem use FILE: takes it for Deno if it is one that runs here and is not too old, and none was found before.
:use
if defined deno exit /b 0
if "%~1"=="" exit /b 0
if not exist "%~1" exit /b 0
set "number=0"
for /f "tokens=1-4 delims=. " %%A in ('call "%~1" --version 2^>nul') do (
  if "%%A"=="deno" set /a "number=%%B*1000000+%%C*1000+%%D" 2>nul
)
if %number% GEQ %lowest% set "deno=%~1"
exit /b 0

:fetch
set "package=win32-x64"
set "target=x86_64-pc-windows-msvc"
set "known=%sha256_win32_x64%"
if /i "%PROCESSOR_ARCHITECTURE%"=="ARM64" set "package=win32-arm64"
if /i "%PROCESSOR_ARCHITECTURE%"=="ARM64" set "target=aarch64-pc-windows-msvc"
if /i "%PROCESSOR_ARCHITECTURE%"=="ARM64" set "known=%sha256_win32_arm64%"
set "fresh=%cache%\fetch-%RANDOM%%RANDOM%"
md "%fresh%" 2>nul
if not exist "%fresh%\" (
  call :say "Cannot make the folder %fresh%: set XDG_CACHE_HOME to a folder that can be written to"
  exit /b 0
)
where npm >nul 2>nul && call :fetch_from_npm
if not defined deno where curl >nul 2>nul && call :fetch_release
rd /s /q "%fresh%" 2>nul
exit /b 0

:fetch_from_npm
call :say "Fetching Deno %wanted% from npm into %cache%, once"
call npm install --prefix "%fresh%" --ignore-scripts --no-audit --no-fund --no-save deno@%wanted% >"%cache%\deno.log" 2>&1
call :keep "%fresh%\node_modules\@deno\%package%\deno.exe"
call :keep "%fresh%\node_modules\deno\node_modules\@deno\%package%\deno.exe"
exit /b 0

:fetch_release
call :say "Fetching Deno %wanted% from its release into %cache%, once"
set "url=https://github.com/denoland/deno/releases/download/v%wanted%/deno-%target%.zip"
call curl -fsSL --proto =https -o "%fresh%\deno.zip" "%url%" >>"%cache%\deno.log" 2>&1 || exit /b 0
call curl -fsSL --proto =https -o "%fresh%\digest" "%url%.sha256sum" >>"%cache%\deno.log" 2>&1 || exit /b 0
call :digest "%fresh%\deno.zip"
findstr /i /c:"%digest%" "%fresh%\digest" >nul || (
  call :say "Cannot use the Deno that was fetched: its SHA-256 is not the release's"
  exit /b 0
)
call tar -xf "%fresh%\deno.zip" -C "%fresh%" deno.exe >>"%cache%\deno.log" 2>&1
call :keep "%fresh%\deno.exe"
exit /b 0

rem digest FILE: its SHA-256 in %digest%.
:digest
set "digest="
for /f "skip=1 delims=" %%H in ('certutil -hashfile "%~1" SHA256') do if not defined digest set "digest=%%H"
if defined digest set "digest=%digest: =%"
if not defined digest set "digest=unknown"
exit /b 0

rem keep FILE: it becomes the Deno of the cache, at one stroke, if it is what it should be.
:keep
if not exist "%~1" exit /b 0
call :digest "%~1"
if /i not "%digest%"=="%known%" (
  call :say "Cannot use the Deno that was fetched: its SHA-256 is not %known%"
  exit /b 0
)
move /y "%~1" "%cache%\deno-%wanted%.exe" >nul || exit /b 0
call :use "%cache%\deno-%wanted%.exe"
exit /b 0
